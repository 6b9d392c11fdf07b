package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"colonnade/accounts"
	"colonnade/discovery/etcd"
	"colonnade/fleet/document"
	"colonnade/node"
)

// newKey is the key to make.
type newKey struct {
	account, id string
	expires     time.Time // zero = never
}

func newKeysCreate() *cobra.Command {
	var store *store
	var want newKey
	var expires string
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make an API key and print it, once",
		Long: `Make an API key for an account and print it on standard output, alone; everything else goes to
standard error. Only its hash is kept, in the document keys/ID; another key of this id is never
replaced. The account's own document is not touched: an account without one has the defaults.`,
		Example: `  key=$(colonnade keys create -account acme)
  colonnade keys create -account acme -id laptop -expires 720h
  colonnade keys create -account acme -expires 2027-01-31`,
		Args: noKeys,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := want.check(expires, time.Now()); err != nil {
				return err
			}
			return want.create(cmd, store)
		},
	}
	store = storeFlag(cmd)
	flags := cmd.Flags()
	flags.StringVar(&want.account, "account", "", "the account that the key is for")
	flags.StringVar(&want.id, "id", "", "what to call the key (default: a random id)")
	flags.StringVar(&expires, "expires", "", "when it ends: after a time such as 720h, or with the beginning of a day (UTC) such as 2027-01-31 (default: never)")
	return cmd
}

func (w *newKey) check(expires string, now time.Time) (err error) {
	if w.account == "" {
		return errors.New("-account is missing: the account that the key is for")
	}
	if err := checkAccount(w.account); err != nil {
		return err
	}
	if w.id != "" {
		if err := notAKey("-id", w.id); err != nil {
			return err
		}
		if err := checkName("-id", w.id); err != nil {
			return err
		}
	}
	w.expires, err = parseExpiry(expires, now)
	return err
}

// parseExpiry reads how long a key is good, or until when. Empty is for ever.
func parseExpiry(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	at, ok := time.Time{}, false
	if d, err := time.ParseDuration(s); err == nil {
		at, ok = now.Add(d), true
	}
	for _, shape := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(shape, s); err == nil {
			at, ok = t, true
		}
	}
	switch {
	case !ok:
		return at, fmt.Errorf("-expires %q: must be a duration such as 720h (30 days), a day such as 2027-01-31 or a time such as 2027-01-31T12:00:00Z", s)
	case !at.After(now):
		return at, fmt.Errorf("-expires %q: that is in the past", s)
	}
	return at.UTC().Truncate(time.Second), nil
}

func (w *newKey) create(cmd *cobra.Command, store *store) error {
	key, entry := accounts.NewKey(w.account, w.id, time.Now().UTC().Truncate(time.Second), w.expires)
	doc, err := document.EncodeAPIKey(&entry)
	if err != nil {
		return fmt.Errorf("no key was made: %w", err)
	}
	var account string
	err = store.use(cmd.Context(), func(ctx context.Context, client *etcd.Client) (err error) {
		if account, err = accountNote(ctx, client, w.account); err != nil {
			return err
		}
		return etcd.Create(ctx, client, node.Prefix, doc)
	})
	switch {
	case errors.Is(err, etcd.ErrExists):
		return fmt.Errorf("-id %s: there is a key of this id; choose another id, or revoke that key first", entry.ID)
	case err != nil:
		return err
	}
	if _, err := fmt.Fprintln(cmd.OutOrStdout(), key); err != nil {
		return fmt.Errorf("the key was made and could not be shown (%w): revoke it with colonnade keys revoke %s", err, entry.ID)
	}
	notes := cmd.ErrOrStderr()
	fmt.Fprint(notes, account)
	expiry := "never expires"
	if !w.expires.IsZero() {
		expiry = "expires at " + stamp(w.expires)
	}
	fmt.Fprintf(notes, "key %s of account %s %s; it is not shown again\n", entry.ID, w.account, expiry)
	return nil
}

// accountNote says how the account stands, if there is anything to say.
func accountNote(ctx context.Context, client *etcd.Client, account string) (string, error) {
	docs, _, err := etcd.List(ctx, client, node.Prefix, accountKey(account))
	if err != nil {
		return "", err
	}
	if len(docs) == 0 {
		return fmt.Sprintf("account %s has no document, so it has the defaults\n", account), nil
	}
	if err := document.Check(docs[0].Key, docs[0].Value); err != nil {
		return wrapped(shown(err.Error())+"; nodes use an earlier good version of the account, or the defaults", "  ") + "\n", nil
	}
	return "", nil
}

// stamp shows a time.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
