package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.MockProducer;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

class TopicsAheadTest {
    private static final int MANY = 2 * TopicsAhead.FEW;

    /** Answers when several are asked for at once, and refuses one of them. */
    private static final class Asked extends MockProducer<byte[], byte[]> {
        final Set<String> topics = ConcurrentHashMap.newKeySet();
        final CountDownLatch together = new CountDownLatch(4);
        final CountDownLatch all = new CountDownLatch(MANY);

        @Override
        public List<PartitionInfo> partitionsFor(String topic) {
            together.countDown();
            try {
                together.await();
            } catch (InterruptedException error) {
                throw new IllegalStateException(error);
            }
            topics.add(topic);
            all.countDown();
            if (topic.endsWith("7")) {
                throw new TopicAuthorizationException(topic);
            }
            return List.of();
        }
    }

    private static List<String> topics(int count) {
        List<String> names = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            names.add("topic-" + i);
        }
        return names;
    }

    @Test
    @Timeout(20)
    void thousandsAreAskedForSeveralAtATimeWhateverIsAnswered() throws InterruptedException {
        Asked producer = new Asked();
        TopicsAhead.learn(producer, topics(MANY));
        assertEquals(true, producer.all.await(10, TimeUnit.SECONDS));
        assertEquals(Set.copyOf(topics(MANY)), producer.topics);
    }

    @Test
    void aFewAreLeftToTheirFirstRecords() {
        Asked producer = new Asked();
        TopicsAhead.learn(producer, topics(TopicsAhead.FEW - 1));
        assertEquals(4, producer.together.getCount());
    }
}
