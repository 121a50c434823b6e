package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class LanesTest {
    private static final long LONG_MS = 600_000;

    @AfterEach
    void freeAgain() {
        Lanes.answerFor(Long.MAX_VALUE);
        WriteGuard.until(Long.MAX_VALUE);
        Lanes.reset();
    }

    private static long mayThenSend() {
        return Lanes.told(new ReportPlugin.Report("1", List.of(), Map.of())).sendMillis();
    }

    @Test
    void anExecutorMaySendUntilSoonAfterAnAnswerAndNeverLongerThanTheDriver() {
        Lanes.answerFor(5_000);
        assertEquals(5_000, mayThenSend());
        WriteGuard.until(System.currentTimeMillis() + LONG_MS);
        assertEquals(5_000, mayThenSend());
        WriteGuard.until(System.currentTimeMillis() + 1_000);
        assertTrue(mayThenSend() <= 1_000);
        WriteGuard.until(-1);
        assertEquals(-1, mayThenSend());
    }

    @Test
    void ofAnExecutorThatHasExitedNothingIsSentAnyMore() {
        String task = "eu#1@run-0-0";
        Lanes.told(new ReportPlugin.Report("1", List.of(task), Map.of()));
        assertTrue(Lanes.isOpen("eu#1@run", LONG_MS));
        Lanes.gone("1");
        assertEquals(false, Lanes.isOpen("eu#1@run", LONG_MS));
    }
}
