import java.io.File;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.CloseOptions.GroupMembershipOperation;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Small topologies on the real Kafka Streams, to compare ours with. Keys are strings; values are strings, or
 * longs where a number is counted. oracle.py says what each of them does, and starts them.
 *
 * <p>Arguments: topology, bootstrap, app id, state folder, output topic, input topics (one or two).
 */
public final class Oracle {
    private static final Serde<String> TEXT = Serdes.String();
    private static final Serde<Long> NUMBER = Serdes.Long();

    /** Beside null, which a left or outer join gives for a missing side, the side's own text. */
    private static final ValueJoiner<String, String, String> BOTH = (left, right) -> left + "|" + right;

    public static void main(String[] args) throws InterruptedException {
        String topology = args[0];
        String output = args[4];
        String first = args[5];
        String second = args.length > 6 ? args[6] : null;
        StreamsBuilder builder = new StreamsBuilder();
        switch (topology) {
            case "filter" -> stream(builder, first)
                .filter((key, value) -> value != null && !value.startsWith("x"))
                .to(output, Produced.with(TEXT, TEXT));
            case "count" -> stream(builder, first)
                .filter((key, value) -> value != null)
                .selectKey((key, value) -> value)
                .repartition(Repartitioned.with(TEXT, TEXT).withName("by-value"))
                .groupByKey(Grouped.with(TEXT, TEXT))
                .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts").withValueSerde(NUMBER))
                .toStream()
                .to(output, Produced.with(TEXT, NUMBER));
            case "aggregate" -> stream(builder, first)
                .groupByKey(Grouped.with(TEXT, TEXT))
                .aggregate(
                    () -> 0L,
                    (key, value, sum) -> (sum * 31 + Long.parseLong(value)) % 1_000_003,
                    Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("sums").withValueSerde(NUMBER))
                .toStream()
                .to(output, Produced.with(TEXT, NUMBER));
            case "table-table" -> toTopic(table(builder, first, "left")
                .join(table(builder, second, "right"), BOTH, kept()), output);
            case "left-table-table" -> toTopic(table(builder, first, "left")
                .leftJoin(table(builder, second, "right"), BOTH, kept()), output);
            case "outer-table-table" -> toTopic(table(builder, first, "left")
                .outerJoin(table(builder, second, "right"), BOTH, kept()), output);
            case "stream-table" -> stream(builder, first)
                .join(table(builder, second, "right"), BOTH, Joined.with(TEXT, TEXT, TEXT))
                .to(output, Produced.with(TEXT, TEXT));
            case "left-stream-table" -> stream(builder, first)
                .leftJoin(table(builder, second, "right"), BOTH, Joined.with(TEXT, TEXT, TEXT))
                .to(output, Produced.with(TEXT, TEXT));
            default -> throw new IllegalArgumentException("no topology " + topology);
        }
        run(new KafkaStreams(builder.build(), settings(args[1], args[2], args[3])));
    }

    private static KStream<String, String> stream(StreamsBuilder builder, String topic) {
        return builder.stream(topic, Consumed.with(TEXT, TEXT));
    }

    private static KTable<String, String> table(StreamsBuilder builder, String topic, String store) {
        return builder.table(topic, Consumed.with(TEXT, TEXT), Materialized.as(store));
    }

    private static Materialized<String, String, KeyValueStore<Bytes, byte[]>> kept() {
        return Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("joined")
            .withKeySerde(TEXT)
            .withValueSerde(TEXT);
    }

    private static void toTopic(KTable<String, String> table, String output) {
        table.toStream().to(output, Produced.with(TEXT, TEXT));
    }

    private static Properties settings(String bootstrap, String appId, String folder) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, appId);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, new File(folder).getAbsolutePath());
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        // Without a cache every change is written, so histories can be compared, not only final tables.
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        // A killed program is replaced soon: the shortest session that a broker allows by default.
        settings.put(StreamsConfig.consumerPrefix("session.timeout.ms"), 6000);
        settings.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), 500);
        return settings;
    }

    private static void run(KafkaStreams streams) throws InterruptedException {
        CountDownLatch failed = new CountDownLatch(1);
        streams.setStateListener((now, before) -> tell(now.name()));
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            failed.countDown();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        // Leaving its group, which is not the default: the next one need not wait for this one's session.
        CloseOptions leaving = CloseOptions.groupMembershipOperation(GroupMembershipOperation.LEAVE_GROUP);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(leaving)));
        streams.start();
        failed.await();
        System.exit(1);
    }

    private static synchronized void tell(String state) {
        System.out.println("{\"event\": \"state\", \"state\": \"" + state + "\"}");
    }
}
