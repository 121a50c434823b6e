package aggregator.connector;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Places in the tasks at which a test has this JVM die, and with it the Python that runs it, or
 * raises an Error there: the same variable and words as `aggregator.model.failpoint`, which names
 * and describes them. Without the variable a place costs one look at a constant.
 */
final class Failpoint {
    private static final boolean ARMED = System.getenv("AGGREGATOR_FAILPOINT") != null;
    private static final Set<String> RAISING = new HashSet<>();
    private static final Map<String, Integer> AT = armed();
    private static final Map<String, AtomicInteger> PASSES = new HashMap<>();
    private static final int KILLED = 137;

    static {
        AT.keySet().forEach(name -> PASSES.put(name, new AtomicInteger()));
    }

    private Failpoint() {}

    /** Passes the place; the process is gone afterwards if it is armed for this pass. */
    static void pass(String name) {
        if (ARMED && AT.containsKey(name)) {
            int number = PASSES.get(name).incrementAndGet();
            if (number == AT.get(name)) {
                die(name, number);
            }
        }
    }

    private static void die(String name, int number) {
        boolean raises = RAISING.contains(name);
        System.err.println(
            "failpoint " + name + ", pass " + number + (raises ? ": raise" : ": kill"));
        System.err.flush();
        if (raises) {
            throw new AssertionError("failpoint " + name);
        }
        ProcessHandle.current()
            .parent()
            .filter(parent -> parent.info().command().orElse("").contains("python"))
            .ifPresent(ProcessHandle::destroyForcibly);
        Runtime.getRuntime().halt(KILLED);
    }

    private static Map<String, Integer> armed() {
        Map<String, Integer> found = new HashMap<>();
        String given = ARMED ? System.getenv("AGGREGATOR_FAILPOINT") : "";
        for (String each : given.split(",")) {
            String[] place = each.strip().split("=");
            String[] parts = place[0].split(":");
            if (parts[0].startsWith("task-")) {
                if (place.length > 1 && place[1].equals("raise")) {
                    RAISING.add(parts[0]);
                }
                found.put(parts[0], parts.length > 1 ? Integer.parseInt(parts[1]) : 1);
            }
        }
        return found;
    }
}
