import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * The lines that steer a process of client libraries: one JSON object a line asks for one thing, by a number
 * that the answer carries (tests/matrix/clients/serving.py). Each thing is done in a thread of its own.
 */
final class Lines {
    /** A message as its consumer got it; times in ms since 1970. */
    record Message(int size, double publishedMs, double receivedMs, Object raw) {}

    /** What a client refuses, in its library's own words. */
    static final class Refused extends Exception {
        Refused(Throwable error) {
            super(error.getClass().getSimpleName() + ": " + error.getMessage());
        }
    }

    interface Producer {
        void publish(int size, JsonNode asked) throws Exception;

        void close() throws Exception;
    }

    interface Consumer {
        /** The next message; null if none comes in time. */
        Message receive(long withinMs) throws Exception;

        void acknowledge(Message message) throws Exception;

        void close() throws Exception;
    }

    interface Library {
        Producer producer(JsonNode command) throws Exception;

        Consumer consumer(JsonNode command) throws Exception;
    }

    private static final ObjectMapper JSON = new ObjectMapper();
    private final PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
    private final Library library;
    private final Map<Integer, Producer> producers = new ConcurrentHashMap<>();
    private final Map<Integer, Consumer> consumers = new ConcurrentHashMap<>();
    private final Map<Integer, Message> messages = new ConcurrentHashMap<>();
    private final AtomicInteger numbers = new AtomicInteger();

    private Lines(Library library) {
        this.library = library;
    }

    /** Does what standard input says, until it ends. */
    static void serve(Library library) throws Exception {
        Lines lines = new Lines(library);
        System.setOut(System.err); // what libraries print is no answer
        ExecutorService threads = Executors.newCachedThreadPool();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        lines.say(0, Map.of());
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode command = JSON.readTree(line);
            threads.submit(() -> lines.answer(command));
        }
        Runtime.getRuntime().halt(0);
    }

    private void answer(JsonNode command) {
        int id = command.get("id").asInt();
        try {
            say(id, told(id, command));
        } catch (Refused refused) {
            say(id, Map.of("refused", refused.getMessage()));
        } catch (Throwable error) {
            say(id, Map.of("failed", String.valueOf(error)));
        }
    }

    private Map<String, Object> told(int id, JsonNode command) throws Exception {
        int of = command.path("of").asInt();
        switch (command.get("do").asText()) {
            case "producer" -> producers.put(id, library.producer(command));
            case "consumer" -> consumers.put(id, library.consumer(command));
            case "publish" -> producers.get(of).publish(command.get("size").asInt(), command.get("asked"));
            case "receive" -> {
                return received(consumers.get(of).receive((long) (1_000 * command.get("within_s").asDouble())));
            }
            case "acknowledge" -> consumers.get(of).acknowledge(messages.remove(command.get("message").asInt()));
            default -> close(of);
        }
        return Map.of();
    }

    private Map<String, Object> received(Message message) {
        Map<String, Object> told = new HashMap<>();
        told.put("message", null);
        if (message != null) {
            int number = numbers.incrementAndGet();
            messages.put(number, message);
            told.put("message", List.of(message.size(), message.publishedMs(), message.receivedMs(), number));
        }
        return told;
    }

    private void close(int of) throws Exception {
        if (producers.containsKey(of)) {
            producers.remove(of).close();
        } else {
            consumers.remove(of).close();
        }
    }

    private synchronized void say(int id, Map<String, Object> what) {
        Map<String, Object> told = new HashMap<>(what);
        told.put("id", id);
        try {
            out.println(JSON.writeValueAsString(told));
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }
}
