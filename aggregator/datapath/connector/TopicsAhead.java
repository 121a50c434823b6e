package aggregator.connector;

import java.util.Collection;
import java.util.LinkedHashSet;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.common.KafkaException;

/**
 * Has a producer learn of thousands of topics before their records come.
 *
 * <p>With the first record of a topic a producer asks the hub about that one, waits for the answer,
 * and copies all that it knows of the others. Of thousands of topics that takes a minute, in which
 * nothing else is sent. Topics that are asked for by several threads share a request.
 */
final class TopicsAhead {
    /** For fewer it is not worth its threads. */
    static final int FEW = 100;
    private static final int THREADS = 16;

    private TopicsAhead() {}

    /**
     * Begins to ask, and returns; the threads end by themselves, or when the producer is closed.
     *
     * <p>Only about topics that are at the hub already: one that is not may be created by that.
     */
    static void learn(Producer<?, ?> producer, Collection<String> topics) {
        Queue<String> left = new ConcurrentLinkedQueue<>(new LinkedHashSet<>(topics));
        if (left.size() < FEW) {
            return;
        }
        for (int i = 0; i < THREADS; i++) {
            Thread thread = new Thread(() -> ask(producer, left), "topics-ahead-" + i);
            thread.setDaemon(true);
            thread.start();
        }
    }

    private static void ask(Producer<?, ?> producer, Queue<String> left) {
        for (String topic = left.poll(); topic != null; topic = left.poll()) {
            try {
                producer.partitionsFor(topic);
            } catch (KafkaException | IllegalStateException error) {
                // A send gets the same answer. A closed producer answers so for each topic.
                continue;
            }
        }
    }
}
