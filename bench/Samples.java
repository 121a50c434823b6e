import java.nio.file.Path;
import java.util.stream.Collectors;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;

/**
 * Prints the execution samples of a flight recording, one a line: milliseconds since 1970, thread,
 * and the classes and methods of its frames, innermost first. Separated by tabs.
 *
 * Usage: java Samples.java RECORDING.jfr
 */
public final class Samples {
    private static final int FRAMES = 40;

    public static void main(String[] given) throws Exception {
        try (RecordingFile recording = new RecordingFile(Path.of(given[0]))) {
            while (recording.hasMoreEvents()) {
                RecordedEvent event = recording.readEvent();
                String kind = event.getEventType().getName();
                boolean sampled =
                    kind.equals("jdk.ExecutionSample") || kind.equals("jdk.NativeMethodSample");
                if (sampled && event.getStackTrace() != null) {
                    print(event);
                }
            }
        }
    }

    private static void print(RecordedEvent event) {
        String frames =
            event.getStackTrace()
                .getFrames()
                .stream()
                .limit(FRAMES)
                .map(it -> it.getMethod().getType().getName() + "." + it.getMethod().getName())
                .collect(Collectors.joining("\t"));
        String thread = event.getThread("sampledThread").getJavaName();
        System.out.println(event.getStartTime().toEpochMilli() + "\t" + thread + "\t" + frames);
    }
}
