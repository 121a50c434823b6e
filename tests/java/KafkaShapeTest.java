package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class KafkaShapeTest {
    @Test
    void thePinnedClientHasAllThatIsReachedFor() {
        assertEquals("", KafkaShape.misfit());
    }

    @Test
    void anotherClientIsNamed() {
        String why = KafkaShape.check("4.3.1");
        assertTrue(why.startsWith("kafka-clients 4.3.1 is not the version"), why);
    }
}
