package aggregator.connector;

/** Prints the bounds of a histogram's buckets, for tests/unit/test_connector_reports.py. */
final class PrintBounds {
    private PrintBounds() {}

    public static void main(String[] args) {
        for (long bound : Histogram.BOUNDS) {
            System.out.println(bound);
        }
    }
}
