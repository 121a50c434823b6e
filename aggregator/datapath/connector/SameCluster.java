package aggregator.connector;

import org.apache.kafka.common.ClusterResource;
import org.apache.kafka.common.ClusterResourceListener;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Sees whether the cluster behind an address is the one that the positions are of.
 *
 * <p>Kafka's clients pass the id of a cluster to deserializers that listen, each time when they
 * have read its metadata; and without these nothing of a topic is fetched, as a topic of another
 * cluster has another id.
 */
final class SameCluster extends ByteArrayDeserializer implements ClusterResourceListener {
    private final String wanted;
    private volatile String other;

    /** {@code wanted} is the cluster's id. */
    SameCluster(String wanted) {
        this.wanted = wanted;
    }

    @Override
    public void onUpdate(ClusterResource cluster) {
        String id = cluster.clusterId();
        if (id == null) {
            return;
        }
        other = id.equals(wanted) ? null : id;
    }

    /** A new client has not asked yet. */
    void opened() {
        other = null;
    }

    /** Why nothing of it may be read; null while it is the same. */
    String stranger() {
        String id = other;
        return id == null ? null : "cluster " + id + " answers in place of " + wanted;
    }
}
