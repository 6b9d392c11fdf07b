package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"colonnade/change"
	"colonnade/change/canary"
	"colonnade/cmd/internal/command"
	"colonnade/discovery/etcd"
	"colonnade/fleet/document"
	"colonnade/internal/ctxtime"
)

const (
	// canaryTakeUp is how long a node may take until a staged change is in force, and all nodes until they have one that was committed.
	canaryTakeUp = 10 * time.Second
	// canaryPatience is how many times as long as -canary-for a trial lasts if there are too few requests.
	canaryPatience = 10
	// wantedBefore is how many requests before the change canaryPatience must be likely to bring for it to be worth waiting.
	wantedBefore = 100
	// stagedTTL is how long a node has a staged change after the command was killed that tries it. It is longer than an election of etcd takes.
	stagedTTL = 15 * time.Second
)

// canaryTrial tries a change at one node, before it goes to all.
type canaryTrial struct {
	*changing
	cmd    *cli.Command
	docs   *change.Documents
	plan   change.Outcome
	read   etcd.Snapshot // what the change was decided by
	length time.Duration // of each watch
	takeUp time.Duration // how long a node may take until it has the staged change

	fleet    *canaryFleet
	node     *nodeLook // as it was when the trial began
	progress progress
}

// runCanary carries out a change at one node first.
func (c *changing) runCanary(ctx context.Context, cmd *cli.Command, s *store) error {
	if inFiles, err := s.inFiles(cmd); err != nil || inFiles {
		return errors.Join(err, errors.New("-canary needs a fleet: documents in files are those of one process; leave -config out"))
	}
	if c.dryRun || c.canaryFor <= 0 {
		return errors.New("-canary does not go with -dry-run, and -canary-for must be more than 0")
	}
	docs, err := documentsToApply(cmd)
	if err != nil {
		return err
	}
	client, err := s.dial()
	if err != nil {
		return err
	}
	defer client.Close()
	t := &canaryTrial{
		changing: c, cmd: cmd, docs: &change.Documents{Client: client, Author: authorOf(cmd)}, length: c.canaryFor, takeUp: canaryTakeUp,
		fleet: newCanaryFleet(newPoller(s.endpoints, client, nil), c.canaryFor), progress: newProgress(cmd.ErrWriter),
	}
	defer t.fleet.close()
	if err := t.prepare(ctx, c.decision(docs)); err != nil || len(t.plan.Edit.Put)+len(t.plan.Edit.Delete) == 0 {
		return etcdError(s.endpoints, err)
	}
	return etcdError(s.endpoints, t.run(ctx, c.canary))
}

// prepare decides and reviews the change, and leaves out what changes nothing.
func (t *canaryTrial) prepare(ctx context.Context, decide change.Decision) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	var err error
	t.plan, t.read, err = t.docs.Prepare(ctx, change.Plan{Decide: decide, Force: t.force, CheckConfirm: func(ctx context.Context, deleted []string) error {
		return checkHeld(ctx, t.docs.Client, deleted, t.cmd.ErrWriter)
	}})
	printAdded(t.cmd.ErrWriter, &t.plan.Review)
	if err != nil {
		return t.withForceHint(err)
	}
	e := &t.plan.Edit
	e.Put = slices.DeleteFunc(slices.Clone(e.Put), func(d document.Raw) bool {
		there, ok := change.WithKey(t.plan.Before, d.Key)
		same := ok && !there.Leased && string(there.Value) == string(d.Value)
		if same {
			fmt.Fprintln(t.cmd.Writer, "unchanged "+d.Key)
		}
		return same
	})
	return t.refuseLeased()
}

// refuseLeased returns an error if the change has a document under a lease. Its registrar writes it again, also while it is tried.
func (t *canaryTrial) refuseLeased() error {
	keys := slices.Clone(t.plan.Edit.Delete)
	for _, d := range t.plan.Edit.Put {
		keys = append(keys, d.Key)
	}
	for _, key := range keys {
		if d, _ := change.WithKey(t.plan.Before, key); d.Leased {
			return fmt.Errorf("nothing was changed: %s is registered under a lease, and its registrar would overwrite a change: have the registrar put it, and leave it out here", key)
		}
	}
	return nil
}

// run tries the change, and then carries it out.
func (t *canaryTrial) run(ctx context.Context, name string) error {
	if err := t.begin(ctx, name); err != nil {
		return err
	}
	defer t.progress.end()
	stage, err := t.docs.Writer().Stage(ctx, t.node.Document, t.plan.Edit, stagedTTL)
	var taken *etcd.AlreadyStagedError
	if errors.As(err, &taken) {
		return fmt.Errorf("nothing was changed: %s: %w; wait until that command has ended, or choose another node", t.node.name(), err)
	} else if err != nil {
		return fmt.Errorf("nothing was changed: %s: %w", t.node.name(), err)
	}
	kept := keepStage(ctx, stage)
	defer func() { _ = kept.end() }() // also after a panic, and after the commit, which takes the change itself away
	if err := t.try(kept.ctx, stage); err != nil {
		return fmt.Errorf("%s, and no other node had it: %s", t.takeBack(kept), command.Printable(err.Error()))
	}
	done, err := t.commit(ctx, kept)
	if err != nil {
		return err
	}
	return t.followAll(ctx, done)
}

// takeBack takes the staged change back, and says so, or how long the node still has it.
func (t *canaryTrial) takeBack(kept *keptStage) string {
	if err := kept.end(); err != nil {
		return fmt.Sprintf("%s has the change until its lease ends, at most %s from now, since etcd does not take it back (%v)", t.node.name(), stagedTTL, err)
	}
	return "the change was taken back from " + t.node.name()
}

// begin finds the node, checks that it can be watched, and counts its requests before the change.
func (t *canaryTrial) begin(ctx context.Context, name string) error {
	first, err := t.fleet.lookFor(ctx, name)
	if err != nil {
		return err
	}
	if t.node, err = first.find(name); err != nil {
		return err
	}
	if t.node.err != nil {
		return fmt.Errorf("nothing was changed: %s cannot be watched: %w", t.node.name(), t.node.err)
	}
	t.fleet.canary = t.node.Document
	changes := len(t.plan.Edit.Put) + len(t.plan.Edit.Delete)
	fmt.Fprintf(t.cmd.ErrWriter, "%s at %s for %s, then at all %s; before that, its requests are counted for %s\n", count(changes, "changed document"), t.node.name(), t.length,
		count(len(first.nodes), "node"), t.fleet.baseline)
	if note := t.homeNote(ctx); note != "" {
		fmt.Fprintln(t.cmd.ErrWriter, note)
	}
	return t.countBefore(ctx, first)
}

// countBefore counts the requests before the change, for longer if the node has requests, but too few to be judged by them.
func (t *canaryTrial) countBefore(ctx context.Context, first fleetLook) error {
	for times := 1; ; times++ {
		if !ctxtime.Sleep(ctx, t.fleet.baseline) {
			return errInterrupted
		}
		last, err := t.fleet.lookFor(ctx, t.fleet.canary)
		if err == nil {
			err = t.fleet.setBaseline(first, last)
		}
		before := t.fleet.before[t.fleet.canary]
		if err != nil || t.force || times == canaryPatience || before.SufficeBefore() || before.Requests*canaryPatience < times*wantedBefore {
			return err
		}
		t.progress.show(fmt.Sprintf("%s  %s before the change, and more are needed to judge it", t.node.name(), count(before.Requests, "request")))
	}
}

var errInterrupted = errors.New("interrupted")

// try waits until the node has the staged change, and watches the node.
func (t *canaryTrial) try(ctx context.Context, stage *etcd.Stage) error {
	if err := t.awaitTakeUp(ctx, stage.Revision); err != nil {
		return cause(ctx, err)
	}
	watch, err := t.fleet.watch(ctx, stage.Revision, &t.plan.Review)
	if err != nil {
		return cause(ctx, err)
	}
	for began, said := time.Now(), false; ; {
		if !ctxtime.Sleep(ctx, t.fleet.interval) {
			return cause(ctx, errInterrupted)
		}
		evidence, worse, err := watch.canary(ctx)
		if err != nil || worse != "" {
			return cause(ctx, errors.Join(err, textError(worse)))
		}
		age := time.Since(began)
		t.progress.show(fmt.Sprintf("%s  %s of %s  %s", t.node.name(), age.Round(time.Second), t.length, evidenceText(evidence)))
		few := fewText(evidence)
		switch {
		case age < t.length:
		case evidence.Enough() || t.force:
			if !evidence.Enough() {
				t.progress.note("not judged, since there were only " + few)
			}
			return nil
		case age > canaryPatience*t.length:
			return fmt.Errorf("there were only %s; -force applies it without", few)
		case !said:
			said = true
			t.progress.note(fmt.Sprintf("only %s: waiting for more, up to %s; Ctrl-C takes the change back, and -force does not wait", few, canaryPatience*t.length))
		}
	}
}

// fewText says that there were too few requests to judge a change.
func fewText(e canary.Evidence) string {
	return fmt.Sprintf("%s since the change, and %d before: too few to find a rise of 10 percentage points", count(e.Now.Requests, "request"), e.Before.Requests)
}

// cause returns why a context has ended, or err if it has not, or if err says more.
func cause(ctx context.Context, err error) error {
	switch reason := context.Cause(ctx); {
	case reason == nil:
		return err
	case errors.Is(reason, context.Canceled):
		return errInterrupted
	default:
		return reason
	}
}

// textError returns an error with a text; nil for none.
func textError(text string) error {
	if text == "" {
		return nil
	}
	return errors.New(text)
}

// awaitTakeUp waits until the staged change is in force at its node.
func (t *canaryTrial) awaitTakeUp(ctx context.Context, revision int64) error {
	for began := time.Now(); ; {
		c, err := t.fleet.configOf(ctx, t.node)
		switch {
		case err == nil && c.Staged != nil && c.Staged.Revision == revision && c.Staged.Problem != "":
			return fmt.Errorf("the node does not take it up: %s", c.Staged.Problem)
		case err == nil && c.Staged != nil && c.Staged.Revision == revision && len(c.Staged.Documents) == 0:
			return fmt.Errorf("the node reads none of the documents: %s; %s", firstOf(c.Staged.Unread), readsText)
		case err == nil && c.Staged != nil && c.Staged.Revision == revision:
			if len(c.Staged.Unread) > 0 {
				t.progress.note(fmt.Sprintf("this node does not read, so this does not try: %s", firstOf(c.Staged.Unread)))
			}
			return nil
		case time.Since(began) > t.takeUp && err != nil:
			return fmt.Errorf("the node cannot be asked whether it has it: %w", err)
		case time.Since(began) > t.takeUp && c.Revision >= revision:
			return fmt.Errorf("the node has not taken it up within %s: its version, %s, may be older than staged changes", t.takeUp, c.Version)
		case time.Since(began) > t.takeUp:
			return fmt.Errorf("the node has not taken it up within %s: it follows etcd up to revision %d only", t.takeUp, c.Revision)
		}
		if !ctxtime.Sleep(ctx, min(t.fleet.interval, 100*time.Millisecond)) {
			return errInterrupted
		}
	}
}

// readsText says which documents nodes read.
const readsText = "an entry reads models, flows, colos, accounts, keys, issuers and limits, and a colo server reads models, pools, colos and the endpoints of its colo"

// homeNote says that a colo server is the home of no pool that the change is about; empty if it is, or if that is not known.
func (t *canaryTrial) homeNote(ctx context.Context) string {
	pools := poolsOf(t.plan.Before, t.plan.Edit, t.node.Place)
	if t.node.Role != roleColo || len(pools) == 0 {
		return ""
	}
	states, err := t.fleet.poolsOf(ctx, t.node)
	if err != nil {
		return ""
	}
	var homes []string
	for _, s := range states {
		if !slices.Contains(pools, s.Pool) {
			continue
		}
		if s.Here {
			return ""
		}
		homes = append(homes, s.Pool+": "+s.Home)
	}
	if len(homes) > 0 {
		return fmt.Sprintf("note: %s is the home of none of the pools concerned, so it grants no permits of theirs; their homes are %s", t.node.name(), firstOf(homes))
	}
	return fmt.Sprintf("note: %s has none of the pools concerned: %s", t.node.name(), strings.Join(pools, ", "))
}
