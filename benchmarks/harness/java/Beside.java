import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;

/**
 * Latencies of one producer, in some stretches beside another one on the same connection; both with the
 * client's defaults, batching included. Prints one line for each message: the name of the stretch, and
 * nanoseconds from sending to the receipt.
 *
 * Arguments: service URL, seconds of warm-up, seconds that count, messages/s of the measured producer, those of
 * the other, then for each stretch `name=topic` or `name=topic,topic of the other`.
 */
public final class Beside {
    private static final byte[] VALUE = new byte[100];

    public static void main(String[] arguments) throws Exception {
        int warmup = Integer.parseInt(arguments[1]);
        int seconds = Integer.parseInt(arguments[2]);
        int rate = Integer.parseInt(arguments[3]);
        int otherRate = Integer.parseInt(arguments[4]);
        for (String stretch : Arrays.asList(arguments).subList(5, arguments.length)) {
            String name = stretch.substring(0, stretch.indexOf('='));
            String[] topics = stretch.substring(name.length() + 1).split(",");
            PulsarClient client = PulsarClient.builder().serviceUrl(arguments[0]).build();
            Producer<byte[]> producer = client.newProducer().topic(topics[0]).create();
            Thread other = null;
            if (topics.length > 1) {
                Producer<byte[]> limited = client.newProducer().topic(topics[1]).create();
                other = new Thread(() -> paced((warmup + seconds) * otherRate, otherRate, at -> limited.sendAsync(VALUE)));
                other.start();
            }
            List<CompletableFuture<Long>> answers = new ArrayList<>();
            paced((warmup + seconds) * rate, rate, at -> {
                long sent = System.nanoTime();
                answers.add(producer.sendAsync(VALUE).thenApply(id -> System.nanoTime() - sent));
            });
            StringBuilder lines = new StringBuilder();
            for (CompletableFuture<Long> answer : answers.subList(warmup * rate, answers.size())) {
                lines.append(name).append(' ').append(answer.get(60, TimeUnit.SECONDS)).append('\n');
            }
            System.out.print(lines);
            if (other != null) {
                other.join();
            }
            client.shutdown();
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
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
