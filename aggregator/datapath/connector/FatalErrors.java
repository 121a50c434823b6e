package aggregator.connector;

import org.apache.kafka.clients.producer.KafkaProducer;

/**
 * Ends this JVM when a thread dies of an Error. Such a thread is not replaced: without a reporter
 * records flow and no position is reported, without a producer's thread nothing is sent, and either
 * would look like an instance that runs.
 */
final class FatalErrors {
    private static final int CODE = 70;

    private FatalErrors() {}

    /** From now on this holds for threads without a handler; one of Spark's for all stays. */
    static void watch() {
        if (Thread.getDefaultUncaughtExceptionHandler() == null) {
            Thread.setDefaultUncaughtExceptionHandler((thread, thrown) -> {
                System.err.print("Exception in thread \"" + thread.getName() + "\" ");
                thrown.printStackTrace();
                end(thread, thrown);
            });
        }
    }

    /**
     * From now on this holds for the thread of a producer that the calling thread has just made:
     * Kafka gives it a handler that logs, and nothing else.
     */
    static void watchProducer(String clientId) {
        String name = KafkaProducer.NETWORK_THREAD_PREFIX + " | " + clientId;
        ThreadGroup group = Thread.currentThread().getThreadGroup();
        // Threads may come while they are counted.
        Thread[] all = new Thread[2 * group.activeCount() + 64];
        int count = group.enumerate(all);
        for (int i = 0; i < count; i++) {
            if (all[i].getName().equals(name)) {
                Thread.UncaughtExceptionHandler before = all[i].getUncaughtExceptionHandler();
                all[i].setUncaughtExceptionHandler((thread, thrown) -> {
                    before.uncaughtException(thread, thrown);
                    end(thread, thrown);
                });
            }
        }
    }

    /** Ends it, if what was thrown in this thread is an Error. */
    static void end(Thread thread, Throwable thrown) {
        if (thrown instanceof Error) {
            System.err.println("the JVM ends: thread " + thread.getName() + " died of " + thrown);
            System.err.flush();
            Runtime.getRuntime().halt(CODE);
        }
    }
}
