package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Proxy;
import java.util.ArrayList;
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
            var found = Json.parse(Lanes.reports(0)).get("cuts");
            assertEquals("[[\"orders\",1,7],[\"orders\",2,9]]", found.toString());
        }
        long seq = Json.parse(Lanes.reports(0)).get("seq").asLong();
        assertEquals("[]", Json.parse(Lanes.reports(seq)).get("cuts").toString());
    }

    /** Receives these reports of a task; returns the tasks that are asked again by the last. */
    private static List<String> received(ReportPlugin.TaskNews... reports) {
        List<String> again = List.of();
        for (ReportPlugin.TaskNews each : reports) {
            ReportPlugin.Report report = new ReportPlugin.Report(
                "1", List.of(), Map.of("eu#3@run-1-0", each), Map.of(), Map.of(), List.of());
            // As from another JVM.
            again = Lanes.receive(ReportPlugin.Report.of(report.message())).again();
        }
        return again;
    }

    private static ReportPlugin.TaskNews whole(long number) {
        return new ReportPlugin.TaskNews(number, true, "{\"number\":" + number + "}");
    }

    private static ReportPlugin.TaskNews change(long base, int at) {
        return new ReportPlugin.TaskNews(base, false, "{\"base\":" + base + ",\"at\":" + at + "}");
    }

    private static List<String> tasks(long since) {
        List<String> found = new ArrayList<>();
        Json.parse(Lanes.reports(since)).get("tasks").forEach(it -> found.add(it.toString()));
        return found;
    }

    private static long seq() {
        return Json.parse(Lanes.reports(0)).get("seq").asLong();
    }

    @Test
    void aWholeReportIsHandedOverOnceAndBeforeWhatHasChangedSince() {
        Lanes.put(Specs.json(LANE).toString());
        long begin = seq();
        assertEquals(List.of(), received(whole(5)));
        assertEquals(List.of(whole(5).json()), tasks(begin));
        long atWhole = seq();
        assertEquals(List.of(), received(change(5, 1), change(5, 2)));
        assertEquals(List.of(change(5, 2).json()), tasks(atWhole));
        // As when the answer before was lost.
        assertEquals(List.of(whole(5).json(), change(5, 2).json()), tasks(begin));
        assertEquals(List.of(), tasks(seq()));
        received(whole(6));
        assertEquals(List.of(whole(6).json()), tasks(atWhole));
        Lanes.forget("eu#3@run");
        assertEquals(List.of(), tasks(0));
    }

    @Test
    void aTaskWhoseWholeReportIsNotHereIsAskedForItAndWhatIsHereStays() {
        Lanes.put(Specs.json(LANE).toString());
        assertEquals(List.of("eu#3@run-1-0"), received(change(5, 1)));
        assertEquals(List.of(), tasks(0));
        // One of another JVM, in which the task was before, has come late.
        assertEquals(List.of("eu#3@run-1-0"), received(whole(5), change(5, 1), change(4, 7)));
        assertEquals(List.of(whole(5).json(), change(5, 1).json()), tasks(0));
        Lanes.forget("eu#3@run");
        // Of a lane that is over nothing is asked.
        assertEquals(List.of(), received(change(4, 7)));
    }

    @Test
    void anExecutorLearnsWhichTasksAreAskedAgain() {
        Lanes.put(Specs.json(LANE).toString());
        ReportPlugin.Report report = new ReportPlugin.Report(
            "1", List.of(), Map.of("eu#3@run-1-0", change(5, 1)), Map.of(), Map.of(), List.of());
        Object message = Lanes.receive(report).message();
        assertEquals(List.of("eu#3@run-1-0"), ReportPlugin.Answer.of(message).again());
    }
}
