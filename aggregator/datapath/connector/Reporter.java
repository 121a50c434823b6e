package aggregator.connector;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.spark.api.plugin.PluginContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The thread of one JVM that reports for all its tasks, and hands them their orders. */
final class Reporter extends Thread {
    private static final Logger LOG = LoggerFactory.getLogger(Reporter.class);
    private static final long PERIOD_MS = 200;
    /** How often a task without other news is checked: its counters may have moved. */
    private static final long QUIET_NANOS = 1_000_000_000L;
    /** How long it rests in the driver's JVM while all tasks are idle, and nothing is ordered. */
    private static final long REST_MS = 1_000;

    /** The reports of a task, its state at the last one, and when that was. */
    private record Sent(LaneTask.Stand stand, ReportNews news, long atNanos) {}

    private static final CountDownLatch ANSWERED = new CountDownLatch(1);

    private static final Object NEWS = new Object();
    private static boolean isNews;

    private static volatile Map<String, Orders> orders = Map.of();
    private static volatile long snapshot;

    private final PluginContext context;
    private final Map<String, Sent> sent = new HashMap<>();
    private Map<String, String> ordersTold = Map.of();
    /** When the log ends of a task were reported last. */
    private final Map<String, Long> endsAt = new HashMap<>();
    private boolean silent = true;
    private boolean busy = true;
    private volatile boolean over;

    Reporter(PluginContext context) {
        super("aggregator-reporter");
        this.context = context;
        setDaemon(true);
    }

    /** The newest orders for a task; its initial ones until the driver has sent any. */
    static Orders orders(TaskSpec spec, Orders known) {
        return orders.getOrDefault(spec.key, known);
    }

    /** The number of the newest hub snapshot that the driver had when it last answered. */
    static long snapshot() {
        return snapshot;
    }

    /** There is something to report, or an order: it does not rest. Never waits. By any thread. */
    static void nudge() {
        synchronized (NEWS) {
            isNews = true;
            NEWS.notifyAll();
        }
    }

    /** Returns when this JVM knows the driver's time and its lease: at once, but for the first. */
    static void awaitAnswer() {
        try {
            ANSWERED.await();
        } catch (InterruptedException interrupted) {
            throw new InterruptException(interrupted);
        }
    }

    void end() {
        over = true;
        interrupt();
    }

    @Override
    public void run() {
        boolean here = context.executorID().equals("driver");
        WriteGuard.mayAsk(here);
        if (here) {
            ANSWERED.countDown();
        }
        while (!over) {
            try {
                rest(here);
                if (!LaneTask.open().isEmpty() || !silent) {
                    ask(here);
                }
            } catch (InterruptedException interrupted) {
                return;
            } catch (Exception failure) {
                // Without an answer the lease ends, and with it what the tasks may send.
                LOG.warn("the driver does not answer: {}", failure.toString());
            } catch (Error error) {
                FatalErrors.end(this, error);
            }
        }
    }

    private void rest(boolean here) throws InterruptedException {
        Thread.sleep(PERIOD_MS);
        // An executor gets its orders and its lease with an answer alone.
        long until = System.nanoTime() + (here && !busy ? REST_MS : 0) * 1_000_000;
        synchronized (NEWS) {
            long left = until - System.nanoTime();
            while (!isNews && left > 0) {
                TimeUnit.NANOSECONDS.timedWait(NEWS, left);
                left = until - System.nanoTime();
            }
            isNews = false;
        }
    }

    private void ask(boolean here) throws Exception {
        List<String> open = new ArrayList<>();
        Map<String, ReportPlugin.TaskNews> news = new HashMap<>();
        Map<String, Long> unheard = new HashMap<>();
        Map<String, Map<String, long[]>> ends = new HashMap<>();
        busy = false;
        for (LaneTask task : LaneTask.open()) {
            String name = task.spec.name;
            open.add(name);
            long silence = task.silentNanos();
            if (silence >= 0) {
                unheard.merge(task.spec.cluster, silence / 1_000_000, Math::min);
            }
            Sent before = sent.get(name);
            LaneTask.Stand stand = task.stand();
            long now = System.nanoTime();
            busy |= !task.isIdle();
            takeEnds(task, now, ends);
            if (before != null && before.stand.equals(stand)
                && now - before.atNanos < QUIET_NANOS) {
                continue;
            }
            ReportNews own = before == null ? new ReportNews() : before.news;
            sent.put(name, new Sent(stand, own, now));
            ReportPlugin.TaskNews its = own.of(task.report());
            if (its != null) {
                news.put(name, its);
            }
        }
        sent.keySet().retainAll(Set.copyOf(open));
        endsAt.keySet().retainAll(sent.keySet());
        if (!open.isEmpty()) {
            Failpoint.pass("task-report");
        }
        long asked = DriverClock.own();
        long askedNanos = System.nanoTime();
        // After the reports: what they count as arrived was not yet known to be in a log cut off.
        List<HubReach.Cut> cuts = HubReach.take();
        ReportPlugin.Report report = new ReportPlugin.Report(
            context.executorID(), List.copyOf(open), news, unheard, ends, messages(cuts));
        ReportPlugin.Answer answer;
        try {
            // In the driver's own JVM no message is needed, nor the threads that would carry it.
            answer = here ? Lanes.receive(report)
                          : ReportPlugin.Answer.of(context.ask(report.message()));
        } catch (Exception failure) {
            sent.clear();
            LaneTask.open().forEach(LaneTask::endsAgain);
            HubReach.again(cuts);
            throw failure;
        }
        silent = open.isEmpty();
        if (!here) {
            DriverClock.follow(answer.at(), asked, DriverClock.own());
            WriteGuard.grant(answer.sendMillis(), asked, askedNanos);
        }
        obey(answer);
        ANSWERED.countDown();
    }

    private static List<List<Object>> messages(List<HubReach.Cut> cuts) {
        return cuts.stream()
            .map(it -> List.<Object>of(it.topic(), it.partition(), it.offset()))
            .toList();
    }

    /** Adds what has changed of a task's log ends, but not more often than once a second. */
    private void takeEnds(LaneTask task, long now, Map<String, Map<String, long[]>> ends) {
        String name = task.spec.name;
        if (now - endsAt.getOrDefault(name, now - QUIET_NANOS) >= QUIET_NANOS) {
            Map<String, long[]> changed = task.takeEnds(now);
            if (!changed.isEmpty()) {
                endsAt.put(name, now);
                ends.put(name, changed);
            }
        }
    }

    private void obey(ReportPlugin.Answer answer) {
        snapshot = answer.snapshot();
        // Their next report is a whole one.
        answer.again().forEach(sent::remove);
        Map<String, Orders> next = new HashMap<>();
        for (Map.Entry<String, String> each : answer.orders().entrySet()) {
            boolean same = each.getValue().equals(ordersTold.get(each.getKey()));
            Orders known = orders.get(each.getKey());
            next.put(each.getKey(), same && known != null ? known : Orders.of(each.getValue()));
        }
        boolean news = !answer.orders().equals(ordersTold);
        ordersTold = answer.orders();
        HubReach.keep(answer.live());
        orders = Map.copyOf(next);
        for (LaneTask task : LaneTask.open()) {
            if (!answer.live().contains(task.spec.key)) {
                task.closeIfIdle();
                continue;
            }
            task.closeIfForgotten();
            if (news) {
                task.wake();
            }
        }
    }
}
