package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Map;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.SaslAuthenticationException;
import org.junit.jupiter.api.Test;

class DamageTest {
    private static final Map<String, Integer> NAMES =
        Map.of("orders-1", 1, "orders-11", 11, "orders-1.eu-0", 2, "or.ders-1", 3);

    @Test
    void thePartitionIsTheOneThatKafkasClientNames() {
        assertOf(1, "Received exception when fetching the next record from orders-1. If needed, p");
        assertOf(11, "Record batch for partition orders-11 at offset 5 is invalid, cause: sum");
        assertOf(2, "Record for partition orders-1.eu-0 at offset 5 is invalid, cause: sum");
        assertOf(
            3,
            "Encountered corrupt message when fetching offset 7 for topic-partition "
                + "or.ders-1");
        assertOf(
            1,
            "Failed to make progress reading messages at orders-1=7. Received a non-empty "
                + "fetch response from the server, but no complete records were found.");
        assertOf(
            1,
            "Unexpected error code 76 while fetching at offset 7 from topic-partition "
                + "orders-1");
    }

    @Test
    void whatNamesNoneOrOneThatIsNotReadHereIsNoDamage() {
        assertOf(-1, "Received exception when fetching the next record from orders-2. If needed,");
        assertOf(-1, "the disk is on fire");
        assertEquals(-1, Damage.of(new KafkaException(), NAMES));
        RuntimeException login = new SaslAuthenticationException("orders-1 is no user");
        assertEquals(-1, Damage.of(login, NAMES));
        assertEquals(-1, Damage.of(new KafkaException(login), NAMES));
    }

    private static void assertOf(int number, String text) {
        assertEquals(number, Damage.of(new KafkaException(text), NAMES));
        assertEquals(number, Damage.of(new IllegalStateException(text), NAMES));
    }
}
