package aggregator.connector;

import java.security.KeyStore;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.net.ssl.SSLEngine;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.security.auth.SslEngineFactory;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Has a thread die, of what is named first; for tests/unit/test_fatal_errors.py. */
final class DieOfErrors {
    private static final int ALIVE = 9;

    private DieOfErrors() {}

    public static void main(String[] args) throws Exception {
        FatalErrors.watch();
        switch (args[0]) {
            case "error" -> in(() -> { throw new StackOverflowError("as a test"); });
            case "exception" -> in(() -> { throw new IllegalStateException("as a test"); });
            case "memory" -> in(DieOfErrors::fill);
            default -> connect();
        }
        System.exit(ALIVE);
    }

    private static void in(Runnable work) throws InterruptedException {
        Thread thread = new Thread(work, "worker");
        thread.start();
        thread.join();
    }

    private static void fill() {
        List<byte[]> held = new ArrayList<>();
        try {
            while (true) {
                held.add(new byte[1_000_000]);
            }
        } catch (OutOfMemoryError caught) {
            // As code of others does that catches all.
            held.clear();
        }
    }

    /** A producer's own thread makes a channel when it connects, before anybody has answered. */
    private static void connect() {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers",
            "127.0.0.1:1",
            "security.protocol",
            "SSL",
            "ssl.engine.factory.class",
            Broken.class,
            "client.id",
            "a",
            "max.block.ms",
            "20000");
        KafkaProducer<byte[], byte[]> producer =
            new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        FatalErrors.watchProducer("a");
        producer.partitionsFor("t");
    }

    /** An engine that a version of a library would not have all classes for. */
    public static final class Broken implements SslEngineFactory {
        @Override
        public SSLEngine createClientSslEngine(String host, int port, String identification) {
            throw new NoClassDefFoundError("as a test");
        }

        @Override
        public SSLEngine createServerSslEngine(String host, int port) {
            throw new UnsupportedOperationException();
        }

        @Override
        public boolean shouldBeRebuilt(Map<String, Object> next) {
            return false;
        }

        @Override
        public Set<String> reconfigurableConfigs() {
            return Set.of();
        }

        @Override
        public KeyStore keystore() {
            return null;
        }

        @Override
        public KeyStore truststore() {
            return null;
        }

        @Override
        public void configure(Map<String, ?> settings) {
            // It needs none.
        }

        @Override
        public void close() {
            // It holds nothing.
        }
    }
}
