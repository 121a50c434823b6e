import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/**
 * Prints how many Produce requests a broker has taken since it started.
 *
 * Usage: java Requests.java JMX_PORT
 */
public final class Requests {
    public static void main(String[] given) throws Exception {
        String url = "service:jmx:rmi:///jndi/rmi://127.0.0.1:" + given[0] + "/jmxrmi";
        ObjectName counters = new ObjectName(
            "kafka.network:type=RequestMetrics,name=RequestsPerSec,request=Produce,*");
        long total = 0;
        try (JMXConnector connector = JMXConnectorFactory.connect(new JMXServiceURL(url))) {
            MBeanServerConnection broker = connector.getMBeanServerConnection();
            for (ObjectName each : broker.queryNames(counters, null)) {
                total += ((Number) broker.getAttribute(each, "Count")).longValue();
            }
        }
        System.out.println(total);
    }
}
