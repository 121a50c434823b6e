package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.junit.jupiter.api.Test;

class TaskClientsTest {
    private static final String MISFIT = KafkaShape.check("4.3.1");

    @Test
    void withAnotherClientNothingIsReadWhereWhatHasAnOriginIsLeftOut() {
        TaskSpec spec = Specs.withAnyOrigin("'topic': 'orders', 'partition': 0, 'position': 0");
        String why =
            assertThrows(IllegalStateException.class, () -> new TaskClients(spec, false, MISFIT))
                .getMessage();
        assertEquals(
            "hub.known_as has '*', and batches of eu that were copied as they are (topics.copy_as:"
                + " batches), and so have an origin, cannot be distinguished: kafka-clients"
                + " 4.3.1 is not the version " + KafkaShape.VERSION
                + " that records are copied as bytes with."
                + " Remove the other kafka-clients from the class path, as of spark.jars",
            why);
        TaskSpec other = Specs.task("'topic': 'orders', 'partition': 0, 'position': 0");
        assertDoesNotThrow(() -> new TaskClients(spec, false, ""));
        assertDoesNotThrow(() -> new TaskClients(other, false, MISFIT));
    }
}
