package main

import (
	"fmt"
	"io"
	"time"

	"colonnade/accounts"
	"colonnade/fleet/document"
	"colonnade/onebox"
)

// demoAccount makes an account with an API key. Their documents replace those of an earlier start.
func demoAccount(now time.Time) (key string, docs []document.Raw, err error) {
	const name, text = "demo", "# Written by colonnade up at each start.\nweight: 4\npriority: interactive\n"
	key, entry := accounts.NewKey(name, name, now.UTC().Truncate(time.Second), time.Time{})
	doc, err := document.EncodeAPIKey(&entry)
	return key, []document.Raw{{Key: accountKey(name), Value: []byte(text)}, doc}, err
}

// printPastes says what to paste first.
func printPastes(out io.Writer, f *onebox.Fleet, c onebox.Config, key string) {
	bearer := "-H 'authorization: Bearer " + key + "' "
	auth, apiKey, trust := "", "none", ""
	if !c.Open {
		auth, apiKey = bearer, key
	}
	if file := c.TLS.Cert; file != "" { // this machine may not know who has signed it
		auth, bearer = "--cacert "+file+" "+auth, "--cacert "+file+" "+bearer
		trust = ", started with SSL_CERT_FILE=" + file + " (Node: NODE_EXTRA_CA_CERTS)"
	}
	chat := func(auth string) string {
		return fmt.Sprintf(`  curl -N %[1]s/chat/completions %[2]s-H 'content-type: application/json' \
    -d '{"model":"default","stream":true,"messages":[{"role":"user","content":"hello"}]}'
`, f.URL(), auth)
	}
	if c.Open {
		fmt.Fprintf(out, `
A streamed chat. Without a key, or with one that nobody knows, it is the account open's:

%[1]s
The same as the account demo, by the key that it has until the next start. In queues it goes before
the account open (priority: interactive, weight: 4):

%[2]s`, chat(auth), chat(bearer))
	} else {
		fmt.Fprintf(out, `
A streamed chat, as the account demo, by the key that it has until the next start. Without a key, or
with one that nobody knows, it is refused:

%s`, chat(bearer))
	}
	requests, slots, fate := crowd(f, c)
	fmt.Fprintf(out, `
A key for somebody else, kept by its hash only:

  bin/colonnade keys create -etcd %[5]s -account acme

The OpenAI SDK for Python (npm's takes baseURL and apiKey)%[8]s:

  OpenAI(base_url=%[1]q, api_key=%[7]q)

%[2]d requests at once, for %[3]d slots: %[4]s
get a 429 that says why and when to come back:

  seq %[2]d | xargs -P %[2]d -I{} curl -s -o /dev/null \
    -w '%%{http_code} colo=%%header{x-colonnade-colo} reason=%%header{x-colonnade-reason} retry-after=%%header{retry-after}\n' \
    %[1]s/chat/completions %[6]s-H 'content-type: application/json' -d '{"model":"default","messages":[{"role":"user","content":"hello"}]}' | sort | uniq -c

Who holds and who waits meanwhile, in another terminal:

  bin/colonnade status -etcd %[5]s -watch

Ctrl-C ends it.
`, f.URL(), requests, slots, fate, f.Etcd, auth, apiKey, trust)
}

// crowd returns how many requests at once show all that can happen to one, for how many slots, and what that is. A colo
// queues a dozen of one account, so twice that beyond its slots is too many for it.
func crowd(f *onebox.Fleet, c onebox.Config) (requests, slots int, fate string) {
	colos := map[string]bool{}
	for _, e := range f.Engines {
		colos[e.Colo] = true
	}
	slots = len(f.Engines) * c.Engine.Slots
	requests = max(4*slots, slots+24*len(colos))
	if len(colos) > 1 {
		return requests, slots, "some run here, some spill over to the next colo, some queue, and the rest"
	}
	return requests, slots, "some run, some queue, and the rest"
}
