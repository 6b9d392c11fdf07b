package deploy_test

import (
	"cmp"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"colonnade/internal/testkit"
)

// unit is a unit file: the values of its settings, in their order.
type unit map[string][]string

func readUnit(t *testing.T, name string) unit {
	t.Helper()
	u := unit{}
	for line := range strings.Lines(text(t, filepath.Join("systemd", name))) {
		if line = strings.TrimSpace(line); line == "" || strings.ContainsAny(line[:1], "#[") {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			t.Errorf("%s: %q is not a setting", name, line)
		}
		u[key] = append(u[key], value)
	}
	return u
}

func (u unit) one(t *testing.T, key string) string {
	t.Helper()
	if len(u[key]) != 1 {
		t.Fatalf("%s is set %d times, want once", key, len(u[key]))
	}
	return u[key][0]
}

// Units start a binary with flags that exist, drain it by SIGTERM, and keep its data in the state directory.
func TestUnits(t *testing.T) {
	f := func(name, command, environment, state string) {
		t.Helper()
		u := readUnit(t, name)
		line := parse(t, name, strings.Fields(u.one(t, "ExecStart")))
		if got := strings.Join(line.command, " "); got != command {
			t.Errorf("%s starts %s", name, got)
		}
		if u.one(t, "KillSignal") != "SIGTERM" {
			t.Errorf("%s: only SIGTERM drains", name)
		}
		outlives(t, name, u.one(t, "TimeoutStopSec"), cmp.Or(line.values["drain"], "5s"), cmp.Or(line.values["stop-timeout"], "0s")) // ship sends for 5 s
		if got := u.one(t, "StateDirectory"); got != state || line.values["data-dir"] != "%S/"+state {
			t.Errorf("%s: events go to %s, the state directory is %s, want both to be %s", name, line.values["data-dir"], got, state)
		}
		if user := u.one(t, "User"); !strings.Contains(text(t, "systemd/colonnade.sysusers"), "\nu "+user+" ") {
			t.Errorf("%s: colonnade.sysusers does not create the user %s", name, user)
		}
		known := flagsOf(t, line.command...)
		for _, m := range regexp.MustCompile(`(?m)^#?([A-Z_]+)=`).FindAllStringSubmatch(text(t, filepath.Join("systemd", environment)), -1) {
			checkEnvironment(t, environment, m[1], known)
			flag := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(m[1], "COLONNADE_")), "_", "-")
			if _, given := line.values[flag]; given {
				t.Errorf("%s sets %s, but %s gives -%s, which has precedence", environment, m[1], name, flag)
			}
		}
		installed := regexp.MustCompile(`^/etc/colonnade/` + strings.TrimSuffix(environment, ".env") + `(-%i)?\.env$`)
		if from := u.one(t, "EnvironmentFile"); !installed.MatchString(from) {
			t.Errorf("%s reads %s, not %s", name, from, environment)
		}
	}
	f("colonnade-entry.service", "entry", "entry.env", "colonnade/entry")
	f("colonnade-colo@.service", "colo", "colo.env", "colonnade/colo-%i")
	f("colonnade.service", "colonnade serve", "serve.env", "colonnade/serve")
	f("colonnade-ship@.service", "colonnade ship", "ship.env", "colonnade/%i")
	f("colonnade-register@.service", "colonnade register", "register.env", "colonnade/register-%i")
}

// The unit of an engine stops it only when colonnade register does, which waits for its requests, and does not keep it from its GPUs.
func TestRegisterUnit(t *testing.T) {
	u := readUnit(t, "colonnade-register@.service")
	if got := u.one(t, "KillMode"); got != "mixed" {
		t.Errorf("KillMode=%s: the engine would get SIGTERM beside colonnade register, or outlive it", got)
	}
	if got := u.one(t, "ExecStart"); !strings.HasSuffix(got, " -- $ENGINE") { // unbraced, so that systemd splits it
		t.Errorf("it starts %s", got)
	}
	if command := regexp.MustCompile(`(?m)^ENGINE=/\S+ \S+`).FindString(text(t, "systemd/register.env")); command == "" {
		t.Error("register.env has no command of an engine by its absolute path")
	}
	for _, setting := range []string{"PrivateDevices", "MemoryDenyWriteExecute", "ProtectProc", "SystemCallFilter", "DevicePolicy"} {
		if len(u[setting]) > 0 {
			t.Errorf("%s=%v keeps the engine from its GPUs, from code that it compiles, or from what it has to know of its processes", setting, u[setting])
		}
	}
	for _, setting := range []string{"NoNewPrivileges", "ProtectSystem", "ProtectHome", "CapabilityBoundingSet"} {
		if entry := readUnit(t, units[0]); u.one(t, setting) != entry.one(t, setting) {
			t.Errorf("%s is %q, in the other units %q", setting, u.one(t, setting), entry.one(t, setting))
		}
	}
}

// units are the names of the unit files, without that of engines.
var units = []string{"colonnade-entry.service", "colonnade-colo@.service", "colonnade.service", "colonnade-ship@.service"}

// allUnits are the names of all unit files.
var allUnits = append(slices.Clone(units), "colonnade-register@.service")

// All units have the same settings, but for their own: the same sandbox above all.
func TestUnitsHaveTheSameSandbox(t *testing.T) {
	own := []string{"Description", "EnvironmentFile", "ExecStart", "StateDirectory", "ExecReload"}
	entry := readUnit(t, units[0])
	for _, name := range units[1:] {
		other := readUnit(t, name)
		for key := range maps.Keys(merged(entry, other)) {
			if a, b := strings.Join(entry[key], "; "), strings.Join(other[key], "; "); a != b && !slices.Contains(own, key) {
				t.Errorf("%s is %q in %s, %q in %s", key, a, units[0], b, name)
			}
		}
	}
}

func merged(a, b unit) unit {
	both := maps.Clone(a)
	maps.Copy(both, b)
	return both
}

// The unit of serve reads documents from the directory that its installation makes, and passes on the signal that reads them at once.
func TestServeUnit(t *testing.T) {
	u, environment := readUnit(t, "colonnade.service"), text(t, "systemd/serve.env")
	config := regexp.MustCompile(`(?m)^COLONNADE_CONFIG=(\S+)$`).FindStringSubmatch(environment)
	if config == nil || !strings.Contains(text(t, "systemd/colonnade.service"), "-o colonnade -g colonnade "+config[1]+"\n") {
		t.Errorf("serve.env names the documents %q, which the comment of colonnade.service does not install", config)
	}
	if got := u.one(t, "ExecReload"); got != "/bin/kill -HUP $MAINPID" {
		t.Errorf("a reload runs %s", got)
	}
	// Without LoadCredential=, systemd makes no directory, and serve does not start without one that it names.
	if len(u["Environment"]) > 0 || !strings.Contains(text(t, "systemd/colonnade.service"), "\n#     Environment=COLONNADE_CREDENTIALS_DIR=%d\n") {
		t.Errorf("the directory of credentials, %%d, is not in the comment alone; set is %q", u["Environment"])
	}
}

// The files to install exist, and colo.env has the variables that endpoints use as credentials.
func TestUnitsReferToFilesThatExist(t *testing.T) {
	for _, name := range allUnits {
		for _, path := range regexp.MustCompile(`deploy/systemd/[\w.@*-]+`).FindAllString(text(t, "systemd/"+name), -1) {
			if found, _ := filepath.Glob(filepath.Join("..", path)); len(found) == 0 {
				t.Errorf("%s: there is no %s", name, path)
			}
		}
	}
	table := tableOf(t, "two-regions.yaml", text(t, "two-regions.yaml"))
	for _, c := range table.Colos() {
		for _, e := range table.EndpointsOf(c.Name) {
			if name, ok := strings.CutPrefix(e.Credential, "env:"); ok && !strings.Contains(text(t, "systemd/colo.env"), "\n#"+name+"=") {
				t.Errorf("endpoint %s/%s wants %s, which colo.env does not have", c.Name, e.ID, name)
			}
		}
	}
}

// systemd-analyze accepts the units.
func TestUnitsVerify(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not in the PATH")
	}
	dir := t.TempDir()
	for _, name := range allUnits {
		moved := strings.ReplaceAll(text(t, "systemd/"+name), "/usr/local/bin", filepath.Dir(testkit.Binary(t, "entry")))
		if err := os.WriteFile(filepath.Join(dir, name), []byte(moved), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	verify := func(args ...string) {
		t.Helper()
		cmd := exec.Command("systemd-analyze", args...)
		cmd.Dir = dir
		// It may print a problem and exit with 0.
		if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), dir) {
			t.Errorf("systemd-analyze %v: %v\n%s", args, err, out)
		}
	}
	verify("verify", "./colonnade-entry.service", "./colonnade-colo@ams.service", "./colonnade.service", "./colonnade-ship@colo-ams.service",
		"./colonnade-register@llama.service")
}
