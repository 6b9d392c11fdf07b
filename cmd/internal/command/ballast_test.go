package command_test

import (
	"runtime"
	"runtime/metrics"
	"testing"

	"colonnade/cmd/internal/command"
)

// ballastMiB is the documented size of the ballast: docs/operations.md.
const ballastMiB = 32

// heapGoalMiB returns the size of the heap at which the next collection begins, right after one.
func heapGoalMiB() int {
	runtime.GC()
	goal := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
	metrics.Read(goal)
	return int(goal[0].Value.Uint64() >> 20)
}

func TestBallastRaisesTheHeapGoal(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	without := heapGoalMiB()
	var b command.Ballast
	defer b.Release()
	b.Take()
	if with := heapGoalMiB(); with < without+3*ballastMiB/2 {
		t.Errorf("the heap goal is %d MiB, and was %d without the ballast; want about %d more", with, without, 2*ballastMiB)
	}
	b.Release()
	if after := heapGoalMiB(); after > without+ballastMiB {
		t.Errorf("the heap goal is %d MiB after the ballast was released, and was %d before", after, without)
	}
}

func TestBallastLeavesTheCollectorToTheOperator(t *testing.T) {
	for _, setting := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Run(setting, func(t *testing.T) {
			t.Setenv("GOGC", "")
			t.Setenv("GOMEMLIMIT", "")
			t.Setenv(setting, "100")
			without := heapGoalMiB()
			var b command.Ballast
			defer b.Release()
			b.Take()
			if with := heapGoalMiB(); with > without+ballastMiB {
				t.Errorf("the heap goal is %d MiB, and was %d before, although %s is set", with, without, setting)
			}
		})
	}
}
