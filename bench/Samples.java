import java.nio.file.Path;
import java.util.Set;
import java.util.stream.Collectors;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;

/**
 * Prints the samples of a flight recording, one a line: milliseconds since 1970, thread, and the
 * classes and methods of its frames, innermost first. Separated by tabs. Those by CPU time where
 * there are any, as they alone count native code rightly.
 *
 * Usage: java Samples.java RECORDING.jfr
 */
public final class Samples {
    private static final int FRAMES = 40;

    public static void main(String[] given) throws Exception {
        Path file = Path.of(given[0]);
        if (print(file, Set.of("jdk.CPUTimeSample")) == 0) {
            print(file, Set.of("jdk.ExecutionSample", "jdk.NativeMethodSample"));
        }
    }

    private static int print(Path file, Set<String> kinds) throws Exception {
        int printed = 0;
        try (RecordingFile recording = new RecordingFile(file)) {
            while (recording.hasMoreEvents()) {
                RecordedEvent event = recording.readEvent();
                if (kinds.contains(event.getEventType().getName())
                    && event.getStackTrace() != null) {
                    print(event);
                    printed++;
                }
            }
        }
        return printed;
    }

    private static void print(RecordedEvent event) {
        String frames =
            event.getStackTrace()
                .getFrames()
                .stream()
                .limit(FRAMES)
                .map(it -> it.getMethod().getType().getName() + "." + it.getMethod().getName())
                .collect(Collectors.joining("\t"));
        String field = event.hasField("sampledThread") ? "sampledThread" : "eventThread";
        String thread = event.getThread(field).getJavaName();
        System.out.println(event.getStartTime().toEpochMilli() + "\t" + thread + "\t" + frames);
    }
}
