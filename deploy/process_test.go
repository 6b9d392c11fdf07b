package deploy_test

import (
	"os"
	"os/exec"
	"testing"

	"colonnade/internal/testkit"
)

// start starts one of the binaries with an environment, which also has the options of the race detector.
func start(t *testing.T, environment []string, args ...string) *testkit.Process {
	t.Helper()
	cmd := exec.Command(testkit.Binary(t, args[0]), args[1:]...)
	cmd.Env = append([]string{testkit.GORACE + "=" + os.Getenv(testkit.GORACE)}, environment...)
	return testkit.Start(t, cmd)
}

// endWell fails the test if a process has ended with an error.
func endWell(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// answer is the response to a client.
type answer struct {
	status int
	colo   string
	body   string
}

func post(address, path, body string) answer {
	status, header, text := testkit.Post("http://"+address+path, body)
	return answer{status, header.Get("X-Colonnade-Colo"), text}
}
