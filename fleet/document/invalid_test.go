package document_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"colonnade/fleet/document"
)

// An API key that is pasted anywhere into a document is neither in the error nor in the table.
func TestKeysInBadDocumentsAreHidden(t *testing.T) {
	const secret = "QZ2WXYCANARY"
	f := func(key, text string) {
		t.Helper()
		docs := document.NewSet()
		err := docs.Put(key, []byte(text), 1)
		if err == nil {
			t.Errorf("%s: %q is accepted", key, text)
			return
		}
		table, _ := json.Marshal(docs.Table())
		said := fmt.Sprintf("%v %#v %v %s", err, err, document.Check(key, []byte(text)), table)
		if strings.Contains(strings.ToUpper(said), "CANARY") {
			t.Errorf("%s: %q: %s", key, text, said)
		}
		if strings.Contains(text, "weight") && !strings.Contains(err.Error(), "looks like an API key") {
			t.Errorf("%s: %q: %v", key, text, err)
		}
	}
	for _, pasted := range []string{"cn_a_" + secret, "cn_my_laptop.7_" + secret, "sk-" + secret, "sk-proj-" + secret, "SK_live_" + secret, "CN_A_" + secret, "xcn_a_" + secret} {
		for _, text := range []string{
			"%s: 1", "weight: %s", "priority: %s", "models: ['%s x']", "models: ['x %s']", "limits: {%s: 1}", "limits: {concurrent: '%s'}", "limits: {'the key %s of Ann': 1}",
			"keys: [{id: a, sha256: %s}]", "keys: [{id: a, %s: x}]", "keys: [%s]", "keys: %s", "keys: {%s: a}", "weight: 'Bearer %s'", "'api key: %s': x", "version: %s", "admin: %s", "%s",
			"\"a\\x85%s\": 1", "weight: \"\\u2028%s\"", `{"weight": "%s"}`, `{"%s": {"a": null}}`,
		} {
			if pasted[0] != 'x' {
				f("accounts/a", fmt.Sprintf(text, pasted))
			}
		}
		for _, key := range []string{"accounts/" + pasted, pasted, "endpoints/" + pasted, "colos/a/" + pasted, "models/" + pasted + "/x"} {
			f(key, "x: 0")
		}
		for _, text := range []string{"sha256: %s", "{account: a, sha256: '%s'}", "{account: '%s x'}", "{account: a, %s: x}", "{account: a, secret: %s}", "expires: %s", "%s"} {
			f("keys/a", fmt.Sprintf(text, pasted))
		}
		f("keys/"+pasted, "x: 0")
		f("keys/"+pasted, "{account: a, sha256: '"+strings.Repeat("00", 32)+"'}")
	}
	f("accounts/xcn_a_"+secret, "weight: 0")
	if err := (&document.InvalidError{Key: "accounts/cn_x_" + secret, Reason: "the key is given twice"}).Error(); err != "accounts/(looks like an API key): the key is given twice" {
		t.Error(err)
	}
	// Text that is no API key is shown.
	for _, name := range []string{"task-x7", "disk_7", "cn-7_x", "cn_7", "\"\u2028task-x7\""} {
		if err := document.Check("accounts/a", []byte("weight: "+name)); !strings.Contains(err.Error(), strings.Trim(name, `"`)[3:]) {
			t.Error(err)
		}
	}
}
