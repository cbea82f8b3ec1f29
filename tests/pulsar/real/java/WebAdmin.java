import java.util.Map;
import java.util.TreeMap;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.admin.PulsarAdminException;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.common.policies.data.DelayedDeliveryPolicies;
import org.apache.pulsar.common.policies.data.PartitionedTopicStats;

/**
 * Pulsar's own admin client, as it comes, at the address that it is given. Each line that it prints is one
 * finding, NAME=VALUE.
 */
public final class WebAdmin {
    public static void main(String[] arguments) throws Exception {
        String url = arguments[0];
        String namespace = arguments[1];
        String topic = "persistent://" + namespace + "/by java, with blanks + signs";
        Map<String, Object> found = new TreeMap<>();
        try (PulsarAdmin admin = PulsarAdmin.builder().serviceHttpUrl(url).build()) {
            admin.topics().createPartitionedTopic(topic, 2);
            admin.topics().createSubscription(topic, "mine", MessageId.earliest);
            found.put("topics", admin.topics().getPartitionedTopicList(namespace));
            PartitionedTopicStats stats = admin.topics().getPartitionedStats(topic, false);
            found.put("partitions", stats.getMetadata().partitions);
            found.put("subscriptions", admin.topics().getSubscriptions(topic));
            found.put("lookup", admin.lookups().lookupTopic(topic + "-partition-0"));
            DelayedDeliveryPolicies wanted =
                    DelayedDeliveryPolicies.builder().active(true).tickTime(150).maxDeliveryDelayInMillis(9000).build();
            admin.topicPolicies().setDelayedDeliveryPolicy(topic, wanted);
            DelayedDeliveryPolicies told = admin.topicPolicies().getDelayedDeliveryPolicy(topic);
            found.put("told", told.isActive() + "," + told.getTickTime() + "," + told.getMaxDeliveryDelayInMillis());
            admin.topicPolicies().removeDelayedDeliveryPolicy(topic);
            admin.namespaces().setDelayedDeliveryMessages(namespace, wanted);
            found.put("namespace", admin.namespaces().getDelayedDelivery(namespace).getMaxDeliveryDelayInMillis());
            admin.namespaces().removeDelayedDeliveryMessages(namespace);
            found.put("removed", admin.namespaces().getDelayedDelivery(namespace));
            try {
                admin.topics().getStats("persistent://" + namespace + "/no-such-topic");
            } catch (PulsarAdminException.NotFoundException error) {
                found.put("missing", error.getStatusCode());
            }
        }
        found.forEach((name, value) -> System.out.println(name + "=" + value));
    }
}
