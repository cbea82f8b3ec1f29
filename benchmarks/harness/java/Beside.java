import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;

/**
 * Latencies of two producers at the same time, one alone on its connection and one beside another producer,
 * all with the client's defaults, batching included. Prints a line for each message: `alone` or `beside`, and
 * nanoseconds from sending to the receipt, or to the client's time-out (30 s).
 *
 * Arguments: service URL, seconds of warm-up, seconds that count, messages/s of each measured producer, those of
 * the other, and the topics: alone, beside, the other's.
 */
public final class Beside {
    private static final byte[] VALUE = new byte[100];

    public static void main(String[] arguments) throws Exception {
        int warmup = Integer.parseInt(arguments[1]);
        int seconds = Integer.parseInt(arguments[2]);
        int rate = Integer.parseInt(arguments[3]);
        int otherRate = Integer.parseInt(arguments[4]);
        PulsarClient own = PulsarClient.builder().serviceUrl(arguments[0]).build();
        PulsarClient shared = PulsarClient.builder().serviceUrl(arguments[0]).build();
        List<Producer<byte[]>> producers = List.of(
                own.newProducer().topic(arguments[5]).create(), shared.newProducer().topic(arguments[6]).create());
        Producer<byte[]> other = shared.newProducer().topic(arguments[7]).create();
        Thread flood = new Thread(() -> paced((warmup + seconds) * otherRate, otherRate, at -> other.sendAsync(VALUE)));
        flood.setDaemon(true);
        flood.start();
        List<List<CompletableFuture<Long>>> answers = List.of(new ArrayList<>(), new ArrayList<>());
        paced((warmup + seconds) * rate, rate, at -> {
            for (int turn = 0; turn < 2; turn++) {
                int which = (at + turn) % 2; // each is the first as often
                long sent = System.nanoTime();
                answers.get(which)
                        .add(producers.get(which).sendAsync(VALUE).handle((id, error) -> System.nanoTime() - sent));
            }
        });
        StringBuilder lines = new StringBuilder();
        for (int which = 0; which < 2; which++) {
            List<CompletableFuture<Long>> all = answers.get(which);
            for (CompletableFuture<Long> answer : all.subList(warmup * rate, all.size())) {
                lines.append(which == 0 ? "alone " : "beside ").append(answer.get(60, TimeUnit.SECONDS)).append('\n');
            }
        }
        System.out.print(lines);
        System.out.flush();
        Runtime.getRuntime().halt(0); // a close would wait for what waits of the other
    }

    private interface Step {
        void at(int number);
    }

    private static void paced(int count, int perSecond, Step step) {
        long start = System.nanoTime();
        for (int number = 0; number < count; number++) {
            long wait = start + number * 1_000_000_000L / perSecond - System.nanoTime();
            if (wait > 0) {
                try {
                    TimeUnit.NANOSECONDS.sleep(wait);
                } catch (InterruptedException error) {
                    return;
                }
            }
            step.at(number);
        }
    }
}
