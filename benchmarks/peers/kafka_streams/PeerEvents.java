import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.processor.StateRestoreListener;

/** What the benchmark wants to know, one JSON line each; the count is Kafka Streams' own metric. */
final class PeerEvents implements StateRestoreListener {
    private final KafkaStreams streams;
    private final ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor(task -> {
        Thread thread = new Thread(task, "events");
        thread.setDaemon(true);
        return thread;
    });

    PeerEvents(KafkaStreams streams) {
        this.streams = streams;
    }

    void everySecond() {
        timer.scheduleAtFixedRate(this::processed, 1, 1, TimeUnit.SECONDS);
    }

    void state(String name) {
        tell("state", "\"state\": \"" + name + "\"");
    }

    /** Threads that end take their metrics along, so the count is told once more before they do. */
    void last() {
        timer.shutdownNow();
        processed();
    }

    private void processed() {
        double total = streams.metrics().values().stream()
            .filter(metric -> metric.metricName().group().equals("stream-thread-metrics"))
            .filter(metric -> metric.metricName().name().equals("process-total"))
            .mapToDouble(metric -> (Double) metric.metricValue())
            .sum();
        tell("processed", "\"records\": " + (long) total);
    }

    @Override
    public void onRestoreStart(TopicPartition partition, String store, long start, long end) {
        tell("restore_start", "\"partition\": " + partition.partition() + ", \"records\": " + (end - start));
    }

    @Override
    public void onBatchRestored(TopicPartition partition, String store, long end, long records) {}

    @Override
    public void onRestoreEnd(TopicPartition partition, String store, long records) {
        tell("restore_end", "\"partition\": " + partition.partition() + ", \"records\": " + records);
    }

    private static synchronized void tell(String event, String fields) {
        System.out.println(
            "{\"event\": \"" + event + "\", \"ms\": " + System.currentTimeMillis() + ", " + fields + "}");
    }
}
