package fleettest

import (
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"colonnade/accounts"
	"colonnade/fleet"
)

// NewAccountKey makes a key and the document of an account that has it. rest is the rest of the document.
func NewAccountKey(t testing.TB, account, rest string) (key, document string) {
	t.Helper()
	key, entry := accounts.NewKey("", time.Now(), time.Time{})
	text, err := fleet.AddKey(account, []byte(rest+"\n"), entry)
	if err != nil {
		t.Fatal(err)
	}
	return key, "key: accounts/" + account + "\n" + string(text) + "---\n"
}

// AccountWithKey makes the document of an account with a key, and the header value that shows the key.
func AccountWithKey(account, rest string) (document, authorization string) {
	key, doc := accounts.NewKey("", time.Time{}, time.Time{})
	document = fmt.Sprintf("---\nkey: accounts/%s\nkeys: [{id: %q, sha256: %q}]\n%s\n", account, doc.ID, hex.EncodeToString(doc.SHA256[:]), rest)
	return document, "Bearer " + key
}
