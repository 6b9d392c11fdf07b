package pages

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"colonnade/internal/etcdtest"
)

// run is a script of the commands (blocks in the language sh) of pages, in order.
type run struct {
	parts []part
	files map[string]string // that the script finds, beside the sample documents
	// upFlags are flags of `make up`, which runs beside the script. Without them, only etcd runs, or nothing beside a place.
	upFlags string
	// place says that one process serves without etcd. Its default addresses are not in the commands.
	place    bool
	postgres bool   // a PostgreSQL runs beside the script, with the user and the database of the page
	before   string // commands that the pages do not have
	// want is text that the script prints; never is text that it does not print, if it is not empty.
	want  []string
	never string
}

// part is a page, or some of its sections.
type part struct {
	page     string
	sections []string // nil = the whole page
}

func (p part) has(b block) bool { return p.sections == nil || slices.Contains(p.sections, b.section) }

// fewSlots makes a fleet that has too many requests also on a machine on which 64 processes do not begin at once.
const fewSlots = "-slots 1 -ttft 200ms"

var runs = []run{
	{parts: []part{{"README.md", []string{"Serve your engines"}}}, place: true, before: engineOfOnePlace, want: []string{
		`"completion_tokens":`, "SLOTS",
	}},
	{parts: []part{{"docs/serve.md", nil}}, place: true, want: []string{
		`"completion_tokens":`, `"id":"llama-3.1-8b-instruct"`, "laptop", "revoked key laptop", "typo.yaml:", "queue.limt", "SLOTS",
		"inference_requests_total{", `"kind":"inference"`, "msg=stopped",
	}},
	{parts: []part{{"README.md", []string{"See a fleet"}}, {"docs/clients.md", nil}, {"docs/anthropic.md", nil}}, upFlags: fewSlots, want: []string{
		"data: [DONE]", `"type":"message","role":"assistant"`, "200 colo=ams", "200 colo=fra", "429 colo=", "reason=account_queue_full", "retry-after=", "COLO",
	}},
	{parts: []part{{"docs/scheduling.md", nil}, {"docs/status.md", nil}}, upFlags: "-verbose", want: []string{
		"200 queued_ms=", "COLO", "429 queued_ms= reason=account_limit", "429 queued_ms= reason=deadline", "up, auto", `"colo": "ams"`,
	}},
	{parts: []part{{"docs/routing.md", nil}}, upFlags: "-colos ams,fra,iad -latency entry-ams=40ms,ams-fra=8ms,ams-iad=80ms", want: []string{
		"nearby  from entry-1", "1 latency", "3 least_loaded", "no active server", "~100ms", `"why": "distance"`, "ONWARD: where a colo",
		`there is no model "nearbu"; similar names: nearby`,
	}},
	{parts: []part{{"docs/overload.md", nil}}, upFlags: "-open", want: []string{"goodput"}},
	{parts: []part{{"README.md", []string{"Run a fleet"}}}, want: []string{
		"applied models/llama-3.1-8b-instruct", `"id":"llama-3.1-8b-instruct"`, "no problems",
	}},
	{parts: []part{
		{"docs/operations.md", nil}, {"docs/keys.md", nil}, {"docs/tls.md", nil}, {"docs/changes.md", nil}, {"docs/events.md", nil}, {"docs/capture.md", nil},
		{"docs/backup.md", nil}, {"docs/engines.md", nil}, {"docs/grow.md", nil},
	}, want: []string{
		"applied models/llama-3.1-8b-instruct", `"completion_tokens":`, "laptop", "revoked key laptop", "edge-1.crt: OK", "ams-1.crt: OK",
		"applied to all nodes at revision", "made a new key in new.key", "step 2 of 3: every node signs with the new key", "the rotation is complete", "draining until the node is taken back", "taken back after a drain", `"new": "draining"`,
		"ACCOUNT  MODEL ", "account,requests,refused", "each hop counts its times", "no problems", `colonnade_tls_certificate_expiry_timestamp_seconds{listener="public"} 1`, "msg=draining", "msg=stopped", `"kind":"inference"`, "COLO", "inference_requests_total{", "ok\n",
		"entries CAPTURE requests", "X-Colonnade-Captured: 20", `"capture":"acme"`, "deleted captures/acme", "engine: running", "events read",
	}},
	{parts: []part{{"docs/operations.md", []string{"Start a fleet"}}, {"docs/register.md", nil}}, want: []string{
		"colonnade | serving: endpoints/ams/127.0.0.1-", "colonnade | serving: endpoints/local/127.0.0.1-", "serving for", "qwen3-8b in ams", "no engine with a worker",
	}},
	{parts: []part{{"docs/operations.md", []string{"Start a fleet"}}, {"docs/sinks.md", nil}}, postgres: true, want: []string{
		"1 event shipped, 0 to go", "(1 row)",
	}},
	{parts: []part{{"docs/admin-api.md", nil}}, place: true, never: "the header Authorization is missing", want: []string{
		`"key": "models/demo-chat"`, `"endpoints/ams/sim-1"`, `"dry_run": true`, "it takes out of service: demo-chat", "alice via the admin API of entry-1", "+ accounts/acme",
		`its ETag is`, `"cn_laptop_`, `"action": "deleted"`, `"new": "draining"`, `"old": "draining"`, "it is the last active entry", `"operationId": "putModel"`,
		`"ttl_seconds": 5`, `"id":"llama-3.1-8b-instruct"`, "may do nothing but register engines",
	}},
	{parts: []part{{"docs/homes.md", nil}}, never: "a request failed", want: []string{
		"ams   ams-1         1     0        0      1       0          0", `outcome="completed"`, "NO HOME", "served after the death of the home",
	}},
	{parts: []part{{"CHANGELOG.md", nil}}, files: map[string]string{"accounts.yaml": oldAccounts}, want: []string{
		"5 documents valid, 0 errors, 0 warnings", "applied keys/laptop", "applied keys/ci", "applied accounts/acme",
		"laptop  2026-11-22T06:59:52Z  2999-12-22T06:59:52Z  active", "ci      2026-11-22T06:59:52Z  never                 active",
	}},
}

// engineOfOnePlace starts the engine that a reader has.
const engineOfOnePlace = "bin/colonnade engine -listen 127.0.0.1:8000 -models llama-3.1-8b-instruct &\n"

// oldAccounts is what the version before API keys were documents printed for its accounts.
const oldAccounts = `key: accounts/acme
weight: 4   # ours
models: [a]
keys:
  - {id: "laptop", sha256: "1518f7fd7e486a50744f762a41d19697cef6dbe494448c29f813a5e7bd6047b1", created: "2026-11-22T06:59:52Z", expires: "2999-12-22T06:59:52Z"}
  - {id: "phone", sha256: "74460c99ec06cb68674ed76ffa96078fb663677222f421d7f2280c30b816c3c1", created: "2026-11-22T06:59:52Z"}
---
key: accounts/beta
keys:
  - {id: "ci", sha256: "915644f0ba5123151cf39b1d0c436cd1089e2d6c2f4d16154f3469d5118aefa9", created: "2026-11-22T06:59:52Z"}
`

func (r *run) pages() string {
	var names []string
	for _, p := range r.parts {
		names = append(names, strings.TrimSpace(p.page+" "+strings.Join(p.sections, ", ")))
	}
	return strings.Join(names, "; ")
}

func TestCommands(t *testing.T) {
	needs(t, "make", "bash", "curl", "go")
	// Once it is up to date, no build in the scripts, which run at once, replaces a program that another one runs.
	if out, err := exec.Command("make", "-C", root, "build").CombinedOutput(); err != nil {
		t.Fatalf("make build: %v\n%s", err, out)
	}
	for _, r := range runs {
		t.Run(r.pages(), func(t *testing.T) {
			t.Parallel()
			r.test(t)
		})
	}
	all := upFlags(t)
	if len(all) < 2 {
		t.Errorf("the pages have make up with flags only in %q", all)
	}
	for _, flags := range all {
		t.Run("make up "+flags, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			s.up(flags)
			s.bash(`curl -s --fail http://127.0.0.1:8080/v1/models`)
		})
	}
}

var upWithFlags = regexp.MustCompile("make up UP_FLAGS='([^']*)'")

// upFlags returns the flags that any page has for `make up`.
func upFlags(t *testing.T) (all []string) {
	t.Helper()
	for _, page := range pages(t) {
		for _, m := range upWithFlags.FindAllStringSubmatch(read(t, page), -1) {
			all = append(all, m[1])
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (r *run) test(t *testing.T) {
	s := newSandbox(t)
	for name, text := range r.files {
		s.write(name, text)
	}
	if r.postgres {
		s.moved[postgresAddress] = startPostgres(t)
	}
	switch {
	case r.place:
		s.environment = []string{"COLONNADE_LISTEN=" + s.move("127.0.0.1:8080"), "COLONNADE_ADMIN=" + s.move("127.0.0.1:9080")}
	case r.upFlags == "":
		s.moved[etcdAddress] = etcdtest.Start(t).Address
	default:
		s.up(r.upFlags)
	}
	var script strings.Builder
	script.WriteString(r.before)
	for _, p := range r.parts {
		script.WriteString(p.script(t))
	}
	out := s.bash(script.String())
	for _, want := range r.want {
		if !strings.Contains(out, want) {
			t.Errorf("nowhere %q in what the commands print", want)
		}
	}
	if r.never != "" && strings.Contains(out, r.never) {
		t.Errorf("%q in what the commands print", r.never)
	}
	for _, p := range r.parts {
		for _, b := range blocks(t, p.page) {
			if p.has(b) {
				s.runProgram(b)
			}
		}
	}
}

// script joins the blocks, but for what the test itself does, and for programs that this machine does not have.
func (p part) script(t *testing.T) string {
	t.Helper()
	var script strings.Builder
	for _, b := range blocks(t, p.page) {
		switch {
		case !p.has(b) || b.language != "sh":
		case strings.Contains(b.text, "openssl ") && !installed("openssl"):
			t.Logf("openssl is not in the PATH; left out:\n%s", b.text)
		default:
			script.WriteString(b.text)
		}
	}
	if script.Len() == 0 {
		t.Fatalf("%s has no commands in %q: this test must follow it", p.page, p.sections)
	}
	var lines []string
	for line := range strings.Lines(script.String()) {
		switch strings.TrimSpace(line) {
		case "make up", "make test": // the one runs beside the script, the other runs this test
			continue
		}
		if command := strings.TrimSpace(line); strings.HasPrefix(command, "bin/colonnade serve ") && readerWaits(command) {
			line = command + " &\nuntil bin/colonnade health http://127.0.0.1:8080/health/ready; do sleep 0.1; done\n"
		}
		if program := missing(line); program != "" {
			t.Logf("%s is not in the PATH; left out: %s", program, line)
			continue
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "")
}

// readerWaits reports whether a command of a page runs until the reader ends it, and the next ones are for another terminal.
func readerWaits(command string) bool {
	return !strings.HasSuffix(command, "&") && !strings.HasSuffix(command, "\\") && !strings.Contains(command, " -print-config")
}

// missing returns a program that a line needs, and this machine does not have.
func missing(line string) string {
	switch {
	case strings.HasPrefix(line, "etcdctl ") && !installed("etcdctl"):
		return "etcdctl"
	case strings.HasPrefix(line, "psql ") && !installed("psql"):
		return "psql"
	case (strings.HasPrefix(line, "jq ") || strings.Contains(line, "| jq ")) && !installed("jq"):
		return "jq"
	}
	return ""
}

func installed(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}

func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if !installed(p) {
			t.Skipf("%s is not in the PATH", p)
		}
	}
}

// Every block of commands is run, and every other block has a language that says what it is. Blocks in the language console are
// commands that change the machine, and are not run.
func TestEveryCommandIsRun(t *testing.T) {
	languages := []string{"sh", "console", "js", "python", "json", "yaml", "promql", "sql", "text"}
	for _, page := range pages(t) {
		for _, b := range blocks(t, page) {
			if !slices.Contains(languages, b.language) {
				t.Errorf("%s, section %q: a block has the language %q; want one of %s", page, b.section, b.language, strings.Join(languages, ", "))
			}
			isRun := slices.ContainsFunc(runs, func(r run) bool {
				return slices.ContainsFunc(r.parts, func(p part) bool { return p.page == page && p.has(b) })
			})
			if b.language == "sh" && !isRun {
				t.Errorf("%s, section %q: these commands are not run by this test:\n%s", page, b.section, b.text)
			}
		}
	}
}

// The README has the two commands that the script above leaves out.
func TestReadmeStartsAndTests(t *testing.T) {
	for _, want := range []string{"```sh\nmake up\n```", "```sh\nmake test\n```"} {
		if !strings.Contains(read(t, "README.md"), want) {
			t.Errorf("README.md lacks %q", want)
		}
	}
	if _, err := os.Stat(root + "/Makefile"); err != nil {
		t.Error(err)
	}
}
