import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.CloseOptions.GroupMembershipOperation;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Counts records per key, with a changelog, exactly once. Tells what it does in JSON lines; ends cleanly on
 * SIGTERM.
 *
 * <p>Arguments: bootstrap, source, output, app id, state folder, threads, commit interval in ms, default|tuned;
 * and optionally the version: the second one leaves out values that end with 00.
 */
public final class CountPeer {
    public static void main(String[] args) throws InterruptedException {
        Properties settings = PeerSettings.base(
            args[0], args[3], args[4], Integer.parseInt(args[5]), Integer.parseInt(args[6]));
        if (args[7].equals("tuned")) {
            PeerSettings.tune(settings);
        }
        boolean second = args.length > 8 && args[8].equals("2");
        run(new KafkaStreams(topology(args[1], args[2], second), settings));
    }

    /** Values are not decoded, so they stay bytes: that would only slow the peer down. */
    private static Topology topology(String source, String output, boolean second) {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, byte[]> stream = builder.stream(source, Consumed.with(Serdes.String(), Serdes.ByteArray()));
        if (second) {
            stream = stream.filter((key, value) -> !endsWithZeros(value));
        }
        stream
            .groupByKey(Grouped.with(Serdes.String(), Serdes.ByteArray()))
            .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts"))
            .toStream()
            .to(output, Produced.with(Serdes.String(), Serdes.Long()));
        return builder.build();
    }

    private static boolean endsWithZeros(byte[] value) {
        return value.length > 1 && value[value.length - 1] == '0' && value[value.length - 2] == '0';
    }

    private static void run(KafkaStreams streams) throws InterruptedException {
        CountDownLatch failed = new CountDownLatch(1);
        PeerEvents events = new PeerEvents(streams);
        streams.setStateListener((now, before) -> events.state(now.name()));
        streams.setGlobalStateRestoreListener(events);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            failed.countDown();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            events.last();
            // Without leaving its group, which is the default, the next start waits for this one's session to
            // run out (45 s).
            streams.close(CloseOptions.groupMembershipOperation(GroupMembershipOperation.LEAVE_GROUP));
            // The JVM ends when this returns, maybe before the listener was told of the last state.
            events.state(streams.state().name());
        }));
        streams.start();
        events.everySecond();
        failed.await();
        System.exit(1);
    }
}
