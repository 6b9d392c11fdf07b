package deploy_test

import (
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	yaml "go.yaml.in/yaml/v2"
)

// composeFile is the part of compose.yaml that these tests check.
type composeFile struct {
	Services map[string]service               `yaml:"services"`
	Volumes  map[string]any                   `yaml:"volumes"`
	Secrets  map[string]struct{ File string } `yaml:"secrets"`
}

type service struct {
	Image       string
	Build       struct{ Context, Dockerfile string }
	Command     []string
	Environment map[string]string
	DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
	Ports       []string
	Volumes     []string
	Secrets     []string
	Stop        string                  `yaml:"stop_grace_period"`
	Health      struct{ Test []string } `yaml:"healthcheck"`
}

// ours reports whether the service runs one of the binaries.
func (s service) ours() bool { return s.Image == "colonnade" }

func readCompose(t *testing.T) composeFile {
	t.Helper()
	var c composeFile
	if err := yaml.Unmarshal([]byte(text(t, "compose/compose.yaml")), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// listens returns the ports that the command of a service listens at.
func (s service) listens() []string {
	var ports []string
	for i, arg := range s.Command {
		if i > 0 && slices.Contains([]string{"-listen", "-admin"}, s.Command[i-1]) {
			_, port, _ := net.SplitHostPort(arg)
			ports = append(ports, port)
		}
		if at, ok := strings.CutPrefix(arg, "--listen-client-urls="); ok {
			u, _ := url.Parse(at)
			ports = append(ports, u.Port())
		}
	}
	return ports
}

// The commands and health checks have flags that exist, node names are unique, and files are in volumes and secrets.
func TestComposeCommands(t *testing.T) {
	c := readCompose(t)
	nodes := map[string]string{}
	for name, s := range c.Services {
		if !s.ours() {
			continue
		}
		line := parse(t, name, s.Command)
		for variable := range s.Environment {
			known := flagsOf(t, line.command...)
			if line.command[0] != "colonnade" { // whose other commands share the environment
				checkEnvironment(t, name, variable, known)
			}
		}
		if len(s.Health.Test) > 0 {
			parse(t, name+"'s health check", s.Health.Test[1:])
		}
		if line.command[0] == "colonnade" {
			continue
		}
		outlives(t, name, s.Stop, line.values["drain"])
		node := line.values["node"]
		if other, twice := nodes[node]; twice {
			t.Errorf("%s and %s are both called %s", name, other, node)
		}
		nodes[node] = name
		if secret, ok := strings.CutPrefix(line.values["key-file"], "/run/secrets/"); !ok || !slices.Contains(s.Secrets, secret) {
			t.Errorf("%s reads its key from %s, which is none of its secrets", name, line.values["key-file"])
		}
		if !slices.ContainsFunc(s.Volumes, func(v string) bool { return strings.HasSuffix(v, ":"+line.values["data-dir"]) }) {
			t.Errorf("%s writes events to %s, which is no volume", name, line.values["data-dir"])
		}
		if _, published := line.values["open"]; published && !slices.ContainsFunc(s.Ports, func(p string) bool { return strings.HasPrefix(p, "127.0.0.1:") }) {
			t.Errorf("%s serves requests without a key, and its port is published beyond this machine: %v", name, s.Ports)
		}
	}
}

// Addresses, volumes, secrets, services and files that are referred to exist.
func TestComposeReferences(t *testing.T) {
	c := readCompose(t)
	references := text(t, "compose/compose.yaml") + text(t, "compose/fleet.yaml")
	references = regexp.MustCompile(`(?m)(^|\s)#.*$`).ReplaceAllString(references, "")
	for name, s := range c.Services {
		for _, m := range regexp.MustCompile(`\b`+name+`:(\d+)\b`).FindAllStringSubmatch(references, -1) {
			if !slices.Contains(s.listens(), m[1]) {
				t.Errorf("%s is referred to, but %s listens at %v", m[0], name, s.listens())
			}
		}
		for _, p := range s.Ports {
			if inside := p[strings.LastIndex(p, ":")+1:]; !slices.Contains(s.listens(), inside) {
				t.Errorf("%s publishes %s, but listens at %v", name, p, s.listens())
			}
		}
		for other, d := range s.DependsOn {
			target, there := c.Services[other]
			if !there || d.Condition == "service_healthy" && len(target.Health.Test) == 0 {
				t.Errorf("%s waits for %s to become %s, which it never does", name, other, d.Condition)
			}
		}
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":")
			if strings.HasPrefix(source, ".") {
				_ = text(t, filepath.Join("compose", source))
			} else if _, declared := c.Volumes[source]; !declared {
				t.Errorf("%s mounts the volume %s, which is not declared", name, source)
			}
		}
		for _, secret := range s.Secrets {
			file := c.Secrets[secret].File
			if file == "" || !strings.Contains(text(t, "../.dockerignore"), "/deploy/compose/"+file+"\n") {
				t.Errorf("%s has the secret %s from the file %q, which does not exist or is part of the build context", name, secret, file)
			}
		}
		if s.ours() {
			_ = text(t, filepath.Join("compose", s.Build.Context, s.Build.Dockerfile))
		}
	}
	// The image has the version of etcd that the tests use.
	tested := regexp.MustCompile(`go\.etcd\.io/etcd/server/v3 (v\S+)`).FindStringSubmatch(text(t, "../go.mod"))[1]
	if image := c.Services["etcd"].Image; !strings.HasSuffix(image, ":"+tested) {
		t.Errorf("etcd is %s, the tests run %s", image, tested)
	}
}

// The documents describe this fleet: its colos, its engines and their slots.
func TestComposeDocuments(t *testing.T) {
	c := readCompose(t)
	table := tableOf(t, "compose/fleet.yaml", text(t, "compose/fleet.yaml"))
	served := map[string]string{} // colo → service
	for name, s := range c.Services {
		if s.ours() && s.Command[0] == "colo" {
			served[parse(t, name, s.Command).values["colo"]] = name
		}
	}
	for _, colo := range table.Colos() {
		if served[colo.Name] == "" {
			t.Errorf("no service serves the colo %s", colo.Name)
		}
		delete(served, colo.Name)
		for _, e := range table.EndpointsOf(colo.Name) {
			u, err := url.Parse(e.URL)
			if err != nil {
				t.Fatal(err)
			}
			line := parse(t, u.Hostname(), c.Services[u.Hostname()].Command)
			if slots := line.values["slots"]; slots != strconv.Itoa(e.Concurrency) {
				t.Errorf("endpoint %s/%s has the concurrency %d, its engine %s slots", colo.Name, e.ID, e.Concurrency, slots)
			}
		}
	}
	if len(served) > 0 {
		t.Errorf("no document describes the colos of %v", served)
	}
}

func TestComposeConfig(t *testing.T) {
	if out, err := exec.Command("docker", "compose", "version").CombinedOutput(); err != nil {
		t.Skipf("no docker compose: %v %s", err, out)
	}
	cmd := exec.Command("docker", "compose", "-f", "compose/compose.yaml", "config", "--quiet")
	cmd.Env = append(os.Environ(), "COLONNADE_USER=1000:1000")
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("docker compose config: %v\n%s", err, out)
	}
}
