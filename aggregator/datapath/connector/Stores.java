package aggregator.connector;

import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.Key;
import java.security.KeyStore;
import java.security.KeyStoreException;
import java.security.UnrecoverableKeyException;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.List;

/**
 * Opens Java's key stores and trust stores for clients that read PEM only. A program of its own:
 * a request a line on stdin, an answer a line on stdout, so that no secret is in a command line.
 *
 * <p>A request is KIND TYPE CONTENT STORE_PASSWORD KEY_PASSWORD, an answer is "ok" CERTIFICATES KEY
 * UNTIL SUBJECT, or "error" WHAT TEXT; all but the kind and the first word are in Base64, and "-"
 * is nothing. The kinds "chain" and "roots" are
 * PEM text of certificates. Of those that are trusted UNTIL is when the last one ends.
 */
final class Stores {
    private static final String NOTHING = "-";

    private Stores() {}

    /** An error of which the setting is known: type, content, store or key. */
    private static final class StoreException extends Exception {
        final String what;

        StoreException(String what, String text) {
            super(text);
            this.what = what;
        }
    }

    public static void main(String[] args) throws IOException {
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        StringBuilder answers = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            answers.append(answer(line)).append('\n');
        }
        System.out.print(answers);
        System.out.flush();
    }

    private static String answer(String request) {
        String[] fields = request.split(" ");
        try {
            return opened(
                fields[0], text(fields[1]), bytes(fields[2]), chars(fields[3]), chars(fields[4]));
        } catch (StoreException known) {
            return "error " + known.what + " " + encoded(known.getMessage());
        } catch (GeneralSecurityException | IllegalArgumentException other) {
            // Its words may quote a part of the content.
            return "error content "
                + encoded("it cannot be read: " + other.getClass().getSimpleName());
        }
    }

    private static String opened(
        String kind, String type, byte[] content, char[] password, char[] own)
        throws StoreException, GeneralSecurityException {
        if (kind.equals("chain") || kind.equals("roots")) {
            return toPem(certificates(content), null, kind.equals("chain"));
        }
        KeyStore store = load(type, content, password);
        return kind.equals("key") ? ofKey(store, own == null ? password : own) : ofTrust(store);
    }

    private static KeyStore load(String type, byte[] content, char[] password)
        throws StoreException, GeneralSecurityException {
        KeyStore store;
        try {
            store = KeyStore.getInstance(type);
        } catch (KeyStoreException absent) {
            throw new StoreException("type", "Java has no key store of type " + type);
        }
        try {
            store.load(new ByteArrayInputStream(content), password);
        } catch (IOException error) {
            if (error.getCause() instanceof UnrecoverableKeyException) {
                throw new StoreException("store", "the password is wrong");
            }
            throw new StoreException("content", "it is no store of type " + type);
        }
        return store;
    }

    private static String ofKey(KeyStore store, char[] password)
        throws StoreException, GeneralSecurityException {
        for (String alias : Collections.list(store.aliases())) {
            if (!store.isKeyEntry(alias)) {
                continue;
            }
            Key key;
            try {
                key = store.getKey(alias, password);
            } catch (UnrecoverableKeyException wrong) {
                throw new StoreException("key", "the password of the key is wrong");
            }
            Certificate[] chain = store.getCertificateChain(alias);
            if (key != null && key.getEncoded() != null && chain != null) {
                return toPem(List.of(chain), pem("PRIVATE KEY", key.getEncoded()), true);
            }
        }
        throw new StoreException("content", "it holds no private key with a certificate");
    }

    /** As Java trusts: of an entry with a key its own certificate. */
    private static String ofTrust(KeyStore store) throws StoreException, GeneralSecurityException {
        List<Certificate> found = new ArrayList<>();
        for (String alias : Collections.list(store.aliases())) {
            if (store.getCertificate(alias) != null) {
                found.add(store.getCertificate(alias));
            }
        }
        if (found.isEmpty()) {
            throw new StoreException("content", "no certificate in it can be read");
        }
        return toPem(found, null, false);
    }

    private static List<Certificate> certificates(byte[] content) throws GeneralSecurityException {
        CertificateFactory factory = CertificateFactory.getInstance("X.509");
        return List.copyOf(factory.generateCertificates(new ByteArrayInputStream(content)));
    }

    private static String toPem(List<Certificate> chain, String key, boolean ours)
        throws GeneralSecurityException {
        StringBuilder text = new StringBuilder();
        long until = 0;
        for (Certificate each : chain) {
            text.append(pem("CERTIFICATE", each.getEncoded()));
            until = Math.max(until, ((X509Certificate) each).getNotAfter().getTime());
        }
        X509Certificate first = (X509Certificate) chain.get(0);
        // What a client shows of itself is the first of its chain; of those it trusts one is
        // enough.
        long ends = ours ? first.getNotAfter().getTime() : until;
        String subject = first.getSubjectX500Principal().getName();
        return "ok " + encoded(text.toString()) + " " + (key == null ? NOTHING : encoded(key)) + " "
            + encoded(Long.toString(ends)) + " " + encoded(subject);
    }

    private static String pem(String label, byte[] content) {
        byte[] newline = {'\n'};
        String body = Base64.getMimeEncoder(64, newline).encodeToString(content);
        return "-----BEGIN " + label + "-----\n" + body + "\n-----END " + label + "-----\n";
    }

    private static String encoded(String text) {
        byte[] content = text.getBytes(StandardCharsets.UTF_8);
        return content.length == 0 ? NOTHING : Base64.getEncoder().encodeToString(content);
    }

    private static byte[] bytes(String field) {
        return field.equals(NOTHING) ? new byte[0] : Base64.getDecoder().decode(field);
    }

    private static String text(String field) {
        return new String(bytes(field), StandardCharsets.UTF_8);
    }

    private static char[] chars(String field) {
        return field.equals(NOTHING) ? null : text(field).toCharArray();
    }
}
