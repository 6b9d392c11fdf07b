package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v3"

	"colonnade/accounts"
	"colonnade/change"
	"colonnade/cmd/internal/command"
	"colonnade/fleet"
	"colonnade/fleet/document"
)

// newKey is the key to create.
type newKey struct {
	account, id string
	role        string    // empty = for requests of the account
	expires     time.Time // zero = never
}

func newKeysCreate() *cli.Command {
	var store store
	var want newKey
	var expires string
	return &cli.Command{
		Name: "create", Usage: "Create an API key and print it, once", ArgValidator: rejectKeys,
		Flags: []cli.Flag{
			store.etcdFlag(), store.configFlag(),
			&cli.StringFlag{Name: "account", Destination: &want.account, Usage: "`ACCOUNT` that the key is for (required without -role)"},
			&cli.StringFlag{Name: "role", Destination: &want.role,
				Usage: "`ROLE` of the key: worker, for colonnade register -server, which registers engines; such a key is for no requests, and has no account"},
			&cli.StringFlag{Name: "id", Destination: &want.id, Usage: "`ID` of the key (default: a random one)"},
			&cli.StringFlag{Name: "expires", Destination: &expires,
				Usage: "`TIME` of its end: a duration such as 720h, or a day (UTC) such as 2027-01-31, at whose beginning it ends (default: never)"},
		},
		Description: `Prints the key alone on standard output; everything else goes to standard error. Only the hash
is kept, in the document keys/ID; an existing key of this id is never replaced. The account's
own document is not touched: an account without one has the defaults.

With -config, the document goes to the file PATH, which only its owner may read (mode 0600);
if PATH is a directory, to its one file that holds keys, else to PATH/keys.yaml.

Examples:
  key=$(colonnade keys create -account acme)
  colonnade keys create -account acme -id laptop -expires 720h
  colonnade keys create -account acme -expires 2027-01-31
  colonnade keys create -account acme -config conf
  colonnade keys create -role worker -id gpus > gpus.key`,
		Action: store.action(func(ctx context.Context, cmd *cli.Command, d *change.Documents) error {
			if err := want.check(expires, time.Now()); err != nil {
				return err
			}
			return want.create(ctx, cmd, d)
		}),
	}
}

func (w *newKey) check(expires string, now time.Time) (err error) {
	if err := w.checkOwner(); err != nil {
		return err
	}
	if w.id != "" {
		if err := checkName("-id", w.id); err != nil {
			return err
		}
	}
	if w.expires, err = accounts.ParseExpiry(expires, now); err != nil {
		return fmt.Errorf("-expires %q: %w", expires, err)
	}
	return nil
}

// checkOwner checks what the key is for.
func (w *newKey) checkOwner() error {
	switch {
	case w.role != "" && w.role != fleet.RoleWorker:
		return fmt.Errorf("-role %q: must be %s; leave it out for a key that sends requests", w.role, fleet.RoleWorker)
	case w.role != "" && w.account != "":
		return fmt.Errorf("-account and -role exclude each other: a key with the role %s belongs to no account", w.role)
	case w.role != "":
		return nil
	case w.account == "":
		return errors.New("-account is missing: the account that the key is for; for a key that registers engines, set -role worker instead")
	}
	return checkName("-account", w.account)
}

// make makes the key and its document.
func (w *newKey) make(now time.Time) (key string, entry fleet.APIKey) {
	now = now.UTC().Truncate(time.Second)
	if w.role == fleet.RoleWorker {
		return accounts.NewWorkerKey(w.id, now, w.expires)
	}
	return accounts.NewKey(w.account, w.id, now, w.expires)
}

func (w *newKey) create(ctx context.Context, cmd *cli.Command, d *change.Documents) error {
	key, entry := w.make(time.Now())
	doc, err := document.EncodeAPIKey(&entry)
	if err != nil {
		return fmt.Errorf("no key was created: %w", err)
	}
	var where, account string
	if w.account != "" {
		account, err = accountNote(ctx, d, w.account)
	}
	if err == nil {
		where, err = d.Create(ctx, doc)
	}
	switch {
	case errors.Is(err, change.ErrExists):
		return fmt.Errorf("-id %s: a key of this id exists; choose another id, or revoke that key first", entry.ID)
	case err != nil:
		return err
	}
	if _, err := fmt.Fprintln(cmd.Writer, key); err != nil {
		return fmt.Errorf("the key was created, but cannot be printed (%w): revoke it with colonnade keys revoke %s%s", err, entry.ID, configFlag(d))
	}
	notes := cmd.ErrWriter
	fmt.Fprint(notes, account)
	expiry := "never expires"
	if !w.expires.IsZero() {
		expiry = "expires at " + stamp(w.expires)
	}
	fmt.Fprintf(notes, "%s%s %s; it is not shown again\n", keyText(&entry), command.Printable(where), expiry)
	return nil
}

// accountNote returns a line about an account whose document is missing or rejected.
func accountNote(ctx context.Context, d *change.Documents, account string) (string, error) {
	docs, err := d.List(ctx, accountKey(account))
	if err != nil && d.Client != nil { // bad files keep the key from being created
		return "", err
	}
	if len(docs) == 0 {
		return fmt.Sprintf("account %s has no document, so it has the defaults\n", account), nil
	}
	if err := document.Check(docs[0].Key, docs[0].Value); err != nil {
		return command.Printable(err.Error()) + "; nodes use an earlier valid version of the account, or the defaults\n", nil
	}
	return "", nil
}

// stamp formats a time.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
