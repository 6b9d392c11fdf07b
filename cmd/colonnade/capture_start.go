package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v3"

	"colonnade/change"
	"colonnade/cmd/internal/command"
	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
)

// newCaptureFlags are the flags of capture start.
type newCaptureFlags struct {
	name, account, sink, maxBytes string
	lasts                         time.Duration
}

func newCaptureStart() *cli.Command {
	var store store
	var want newCaptureFlags
	return &cli.Command{
		Name: "start", Usage: "Begin to capture the requests of an account", ArgValidator: command.RejectArgs,
		Flags: []cli.Flag{
			store.etcdFlag(), store.configFlag(),
			&cli.StringFlag{Name: "account", Destination: &want.account, Usage: "`ACCOUNT` whose requests are captured (required)"},
			&cli.DurationFlag{Name: "for", Destination: &want.lasts, Usage: "how long, at most 24h (required)"},
			&cli.StringFlag{Name: "sink", Destination: &want.sink, Usage: "`SINK` of the content: file:/PATH on the machine of each entry, or an http or https URL (required)"},
			&cli.StringFlag{Name: "max-bytes", Destination: &want.maxBytes, Usage: "longest part of a body that is kept, such as 64KiB, at most 16MiB (default: 1MiB)"},
			&cli.StringFlag{Name: "name", Destination: &want.name, Usage: "`NAME` of the capture (default: that of the account)"},
		},
		Description: `The sink gets the prompts and completions of the account: tell those whose they are. The file is
made with the mode 0600, and must not exist with another one. The capture ends by itself, also if
etcd is away then; to end it earlier, use capture stop. Of a realtime session only the handshake
is captured, not its messages.

Examples:
  colonnade capture start -account acme -for 10m -sink file:/var/lib/colonnade/acme.jsonl`,
		Action: store.action(func(ctx context.Context, cmd *cli.Command, d *change.Documents) error {
			doc, err := want.document(time.Now())
			if err != nil {
				return err
			}
			return want.start(ctx, cmd, d, doc)
		}),
	}
}

// document returns the capture's document.
func (w *newCaptureFlags) document(now time.Time) (document.Raw, error) {
	switch {
	case w.account == "":
		return document.Raw{}, errors.New("-account is missing: the account whose requests are captured")
	case w.lasts == 0:
		return document.Raw{}, errors.New("-for is missing: how long the capture lasts, such as 10m")
	case w.lasts < 0 || w.lasts > fleet.MaxCapture:
		return document.Raw{}, fmt.Errorf("-for %s: a capture must last more than 0s, and at most %s", w.lasts, fleet.MaxCapture)
	case w.sink == "":
		return document.Raw{}, errors.New("-sink is missing: where the content goes, such as file:/var/lib/colonnade/capture.jsonl")
	}
	if err := checkName("-account", w.account); err != nil {
		return document.Raw{}, err
	}
	if w.name == "" {
		w.name = w.account
	}
	if err := checkName("-name", w.name); err != nil {
		return document.Raw{}, err
	}
	fields := map[string]any{"account": w.account, "sink": w.sink, "until": now.Add(w.lasts).UTC().Truncate(time.Second)}
	if w.maxBytes != "" {
		fields["max_bytes"] = w.maxBytes
	}
	value, err := json.Marshal(fields)
	if err != nil {
		return document.Raw{}, err
	}
	doc := document.Raw{Key: captureKey(w.name), Value: value}
	return doc, checkCaptureFlag(doc)
}

func (w *newCaptureFlags) start(ctx context.Context, cmd *cli.Command, d *change.Documents, doc document.Raw) error {
	account, err := accountNote(ctx, d, w.account)
	if err != nil {
		return err
	}
	var change changing
	err = change.run(ctx, cmd, d, func(_ context.Context, before []etcd.Stored) (etcd.Edit, error) {
		return etcd.Edit{Put: []document.Raw{doc}}, w.clash(capturesIn(before), time.Now())
	})
	if err != nil {
		return err
	}
	fmt.Fprint(cmd.ErrWriter, account)
	fmt.Fprintf(cmd.ErrWriter, "entries CAPTURE requests and responses of account %s, with their content, to %s for %s; to end it earlier: colonnade capture stop %s%s\n",
		w.account, w.sink, w.lasts, w.name, configFlag(d))
	fmt.Fprintln(cmd.ErrWriter, "warning: the messages of realtime sessions are NOT CAPTURED: a session leaves one record, of its handshake")
	return nil
}

// clash returns an error if a capture of this name, or of this account, is in force: entries have one for each account.
func (w *newCaptureFlags) clash(captures []*fleet.Capture, now time.Time) error {
	for _, c := range captures {
		if !c.EndedAt(now) && (c.Name == w.name || c.Account == w.account) {
			return fmt.Errorf("the capture %s of account %s goes on until %s; end it first: colonnade capture stop %s", c.Name, c.Account, stamp(c.Until), c.Name)
		}
	}
	return nil
}
