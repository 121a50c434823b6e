package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Proxy;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class LanesTest {
    private static final long LONG_MS = 600_000;
    private static final String LANE = "{'key': 'eu#3@run', 'lane': 'union', 'generation': 3,"
        + "'readings': [{'cluster': 'us'}, {'cluster': 'eu'}]}";

    @AfterEach
    void freeAgain() {
        Lanes.answerFor(Long.MAX_VALUE);
        WriteGuard.grant(Long.MAX_VALUE, 0, 0);
        Lanes.reset();
    }

    private static long mayThenSend() {
        return Lanes
            .receive(
                new ReportPlugin.Report("1", List.of(), Map.of(), Map.of(), Map.of(), List.of()))
            .sendMillis();
    }

    @Test
    void anExecutorMaySendUntilSoonAfterAnAnswerAndNeverLongerThanTheDriver() {
        Lanes.answerFor(5_000);
        assertEquals(5_000, mayThenSend());
        WriteGuard.until(System.currentTimeMillis() + LONG_MS, LONG_MS);
        assertEquals(5_000, mayThenSend());
        WriteGuard.until(System.currentTimeMillis() + 1_000, LONG_MS);
        assertTrue(mayThenSend() <= 1_000);
        // The wall's clock was set back: the other one knows how long it has been.
        WriteGuard.until(System.currentTimeMillis() + LONG_MS, 1_000);
        assertTrue(mayThenSend() <= 1_000);
        WriteGuard.until(System.currentTimeMillis() + LONG_MS, 0);
        assertEquals(0, mayThenSend());
        WriteGuard.until(-1, 0);
        assertEquals(-1, mayThenSend());
    }

    @Test
    void whatIsGrantedEndsByWhicheverClockSaysSoFirst() {
        long wall = System.currentTimeMillis();
        long nanos = System.nanoTime();
        WriteGuard.grant(5_000, wall, nanos);
        assertTrue(WriteGuard.left() > 4_000);
        WriteGuard.grant(5_000, wall - 10_000, nanos);
        assertEquals(0, WriteGuard.left());
        WriteGuard.grant(5_000, wall + 10_000, nanos - 10_000_000_000L);
        assertEquals(0, WriteGuard.left());
        WriteGuard.grant(-1, wall, nanos);
        assertEquals(-1, WriteGuard.left());
    }

    @Test
    void forHowLongASourceHasAnsweredNothingIsOfTheTaskThatItAnsweredLast() {
        for (long ms : new long[] {90_000, 30_000, 60_000}) {
            Lanes.receive(new ReportPlugin.Report(
                "1", List.of(), Map.of(), Map.of("eu", ms, "us", 0L), Map.of(), List.of()));
        }
        var unheard = Json.parse(Lanes.reports(0)).get("unheard");
        assertEquals(30_000, unheard.get("eu").asLong(), 5_000);
        assertEquals(0, unheard.get("us").asLong(), 5_000);
        assertEquals(2, unheard.size());
    }

    @Test
    void ofAnExecutorThatHasExitedNothingIsSentAnyMore() {
        String task = "eu#1@run-0-0";
        Lanes.receive(
            new ReportPlugin.Report("1", List.of(task), Map.of(), Map.of(), Map.of(), List.of()));
        assertTrue(Lanes.isOpen("eu#1@run", LONG_MS));
        Lanes.gone("1");
        assertEquals(false, Lanes.isOpen("eu#1@run", LONG_MS));
    }

    @Test
    void whatIsKnownOfALogIsHandedOverOnceAndAgainWhenItHasChanged() {
        Lanes.put(Specs.json(LANE).toString());
        String task = "eu#3@run-1-0";
        ends(task, 7, -1, 0);
        var first = Json.parse(Lanes.reports(0));
        assertEquals("[7,-1,0]", first.at("/ends/0/parts/orders~10").toString());
        assertEquals("eu", first.at("/ends/0/cluster").asText());
        long seq = first.get("seq").asLong();
        assertEquals(0, Json.parse(Lanes.reports(seq)).get("ends").size());
        ends(task, 8, 4_000, 1);
        var late = Json.parse(Lanes.reports(seq)).at("/ends/0/parts/orders~10");
        assertEquals(8, late.get(0).asLong());
        assertEquals(4_000, late.get(1).asLong(), 5_000);
        Lanes.forget(task.substring(0, task.length() - 4));
        assertEquals(0, Json.parse(Lanes.reports(0)).get("ends").size());
    }

    @Test
    void aQueryThatIsOverIsNamedUntilItsLaneIsForgotten() {
        var active = new AtomicBoolean(true);
        StreamingQuery query = (StreamingQuery) Proxy.newProxyInstance(
            getClass().getClassLoader(),
            new Class<?>[] {StreamingQuery.class},
            (proxy, method, arguments) -> active.get());
        Lanes.follow("eu#3@run", query);
        assertEquals("[]", Json.parse(Lanes.reports(0)).get("over").toString());
        active.set(false);
        assertEquals("[\"eu#3@run\"]", Json.parse(Lanes.reports(0)).get("over").toString());
        Lanes.forget("eu#3@run");
        assertEquals("[]", Json.parse(Lanes.reports(0)).get("over").toString());
    }

    private static void ends(String task, long... values) {
        var changed = Map.of(task, Map.of("orders/0", values));
        Lanes.receive(
            new ReportPlugin.Report("1", List.of(task), Map.of(), Map.of(), changed, List.of()));
    }

    @Test
    void whatWasCutOffIsReportedUntilItWasTaken() {
        List<List<Object>> cuts = List.of(List.of("orders", 1, 7L), List.of("orders", 2, 9L));
        Lanes.receive(new ReportPlugin.Report("1", List.of(), Map.of(), Map.of(), Map.of(), cuts));
        for (int i = 0; i < 2; i++) {
            var told = Json.parse(Lanes.reports(0)).get("cuts");
            assertEquals("[[\"orders\",1,7],[\"orders\",2,9]]", told.toString());
        }
        long seq = Json.parse(Lanes.reports(0)).get("seq").asLong();
        assertEquals("[]", Json.parse(Lanes.reports(seq)).get("cuts").toString());
    }
}
