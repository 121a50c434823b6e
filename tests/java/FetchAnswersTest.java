package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.junit.jupiter.api.Test;

class FetchAnswersTest {
    @Test
    void kafkasConsumerCountsTheAnswersFromTheStart() {
        FetchAnswers answers = new FetchAnswers();
        ByteArrayDeserializer asItIs = new ByteArrayDeserializer();
        try (
            var consumer =
                new KafkaConsumer<>(Map.of("bootstrap.servers", "127.0.0.1:1"), asItIs, asItIs)) {
            answers.follow(consumer);
            assertTrue(answers.areCounted());
        }
        answers.look(false);
        assertTrue(answers.silentNanos() < 0);
    }
}
