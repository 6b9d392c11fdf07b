package deploy_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"colonnade/internal/testkit"
)

// instruction is an instruction of the Dockerfile, in one line.
type instruction struct{ name, args string }

func dockerfile(t *testing.T) []instruction {
	t.Helper()
	joined := regexp.MustCompile(`\\\n\s*`).ReplaceAllString(text(t, "Dockerfile"), "")
	var all []instruction
	for line := range strings.Lines(joined) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		name, args, _ := strings.Cut(line, " ")
		all = append(all, instruction{name, args})
	}
	return all
}

// The Dockerfile builds with the Go version of go.mod, copies files that exist, runs as a user with a number, and exposes the
// ports that the binaries listen at.
func TestDockerfile(t *testing.T) {
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)\.\d+$`).FindStringSubmatch(text(t, "../go.mod"))[1]
	final, user, ports := false, "", ""
	var starts commandLine
	for _, in := range dockerfile(t) {
		words := strings.Fields(in.args)
		switch {
		case in.name == "FROM" && strings.Contains(in.args, "golang"):
			// Of the patch releases it is always the newest.
			if !strings.Contains(in.args, "golang:"+version+"-") {
				t.Errorf("built with %s, go.mod wants %s", in.args, version)
			}
		case in.name == "FROM":
			final = true
		case in.name == "COPY" && !strings.HasPrefix(in.args, "--from="):
			for _, source := range words[:len(words)-1] {
				if _, err := os.Stat(filepath.Join("..", source)); err != nil {
					t.Errorf("COPY %s: %v", in.args, err)
				}
			}
		case in.name == "RUN" && final:
			t.Errorf("RUN %s: the image has no shell", in.args)
		case in.name == "RUN":
			for _, dir := range regexp.MustCompile(`\./cmd/\w+`).FindAllString(in.args, -1) {
				if _, err := os.Stat(filepath.Join("..", dir, "main.go")); err != nil {
					t.Errorf("RUN %s: %v", in.args, err)
				}
			}
		case in.name == "USER":
			user = in.args
		case in.name == "EXPOSE":
			ports = in.args
		case in.name == "CMD":
			starts = parse(t, "CMD", list(t, in.args))
		case in.name == "ENV":
			variable, _, _ := strings.Cut(in.args, "=")
			for _, command := range [][]string{{"colonnade", "serve"}, {"entry"}, {"colo"}} {
				checkEnvironment(t, "ENV", variable, flagsOf(t, command...))
			}
		}
	}
	if got := strings.Join(starts.command, " "); got != "colonnade serve" || starts.values["listen"] != ":8080" {
		t.Errorf("the image runs %q by default, and listens at %q, which is not reached from outside", got, starts.values["listen"])
	}
	if !regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).MatchString(user) {
		t.Errorf("USER %s: want numbers, and not root's", user)
	}
	for _, command := range [][]string{{"colonnade", "serve"}, {"entry"}, {"colo"}} {
		listen, _, _ := strings.Cut(flagsOf(t, command...)["listen"], ";") // defaults under conditions follow
		if port := strings.TrimPrefix(listen, ":"); !slices.Contains(strings.Fields(ports), port) {
			t.Errorf("EXPOSE %s: without the port %s of %s", ports, port, strings.Join(command, " "))
		}
	}
}

// list returns the words of an instruction in JSON form.
func list(t *testing.T, args string) (words []string) {
	t.Helper()
	if err := json.Unmarshal([]byte(args), &words); err != nil {
		t.Fatalf("%s: %v", args, err)
	}
	return words
}

// The build context lacks exactly the files that git ignores: otherwise the recorded version ends with "+dirty".
func TestDockerIgnore(t *testing.T) {
	lines := func(name string) []string {
		var all []string
		for line := range strings.Lines(text(t, name)) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				all = append(all, strings.TrimPrefix(strings.Trim(line, "/"), "**/"))
			}
		}
		slices.Sort(all)
		return all
	}
	if git, docker := lines("../.gitignore"), lines("../.dockerignore"); !slices.Equal(git, docker) {
		t.Errorf(".gitignore has\n%q\n.dockerignore has\n%q", git, docker)
	}
}

// docker skips the test unless the Docker daemon runs.
func docker(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("docker", "info").CombinedOutput(); err != nil {
		t.Skipf("the Docker daemon does not run: %v %s", err, out[max(0, len(out)-200):])
	}
}

func TestImage(t *testing.T) {
	if !testkit.Soak() {
		t.Skip("building the image takes minutes and the network: set COLONNADE_SOAK")
	}
	docker(t)
	const tag = "colonnade:test"
	build := exec.Command("docker", "build", "-f", "deploy/Dockerfile", "-t", tag, ".")
	build.Dir, build.Env = "..", append(os.Environ(), "DOCKER_BUILDKIT=1")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("docker build: %v\n%s", err, out)
	}
	for _, args := range [][]string{{"entry", "-h"}, {"colo", "-h"}, {"colonnade", "serve", "-h"}, {"colonnade", "engine", "-h"}} {
		if out, err := exec.Command("docker", append([]string{"run", "--rm", tag}, args...)...).CombinedOutput(); err != nil {
			t.Errorf("docker run %v: %v\n%s", args, err, out)
		}
	}
	if out, err := exec.Command("docker", "run", "--rm", tag).CombinedOutput(); err == nil || !strings.Contains(string(out), "COLONNADE_ENGINE") {
		t.Errorf("docker run without an engine ends with %v and does not say what to set:\n%s", err, out)
	}
}
