package aggregator.connector;

import java.io.IOException;
import java.net.URL;
import java.util.Collections;
import java.util.Enumeration;
import java.util.List;

/**
 * The class loader of a thread that makes a Spark session: the one it had, but for one file.
 *
 * <p>Spark asks it who extends sessions, and finds its library of machine learning, which registers
 * two functions for its vectors. To name their types it starts Scala's reflection: a quarter of the
 * CPU of a start.
 */
public final class SessionLoader extends ClassLoader {
    private static final String EXTENSIONS =
        "META-INF/services/org.apache.spark.sql.SparkSessionExtensionsProvider";
    private static final String LEFT_OUT = "/spark-mllib_";

    private SessionLoader(ClassLoader parent) {
        super(parent);
    }

    /** Give the thread such a loader; returns the argument for {@link #leave}. */
    public static ClassLoader enter() {
        ClassLoader before = Thread.currentThread().getContextClassLoader();
        Thread.currentThread().setContextClassLoader(new SessionLoader(before));
        return before;
    }

    /** Give the thread the loader back that it had. */
    public static void leave(ClassLoader before) {
        Thread.currentThread().setContextClassLoader(before);
    }

    @Override
    public Enumeration<URL> getResources(String name) throws IOException {
        Enumeration<URL> found = super.getResources(name);
        if (!name.equals(EXTENSIONS)) {
            return found;
        }
        List<URL> kept = Collections.list(found);
        kept.removeIf(url -> url.getPath().contains(LEFT_OUT));
        return Collections.enumeration(kept);
    }
}
