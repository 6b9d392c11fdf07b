package fleettest

import (
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"colonnade/accounts"
	"colonnade/fleet"
	"colonnade/fleet/document"
)

// NewAccountKey makes an API key, and the documents of the key and of its account. rest is what the account's document
// says.
func NewAccountKey(t testing.TB, account, rest string) (key, documents string) {
	t.Helper()
	key, entry := accounts.NewKey(account, "", time.Now(), time.Time{})
	return key, "key: accounts/" + account + "\n" + rest + "\n---\n" + APIKeyDocument(t, entry) + "---\n"
}

// APIKeyDocument writes the document of an API key as it stands in a file.
func APIKeyDocument(t testing.TB, key fleet.APIKey) string {
	t.Helper()
	doc, err := document.EncodeAPIKey(&key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := document.JoinFile([]document.Raw{doc})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// AccountWithKey makes the documents of an account and of an API key, and the header value with the key.
func AccountWithKey(account, rest string) (documents, authorization string) {
	key, doc := accounts.NewKey(account, "", time.Time{}, time.Time{})
	documents = fmt.Sprintf("---\nkey: accounts/%s\n%s\n---\nkey: keys/%s\naccount: %s\nsha256: %q\n",
		account, rest, doc.ID, account, hex.EncodeToString(doc.SHA256[:]))
	return documents, "Bearer " + key
}
