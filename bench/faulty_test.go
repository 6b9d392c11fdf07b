package bench

import (
	"strings"
	"testing"
	"time"
)

// The report of a gateway names its faults, and no fault makes a gateway look better.
func TestFaultsMissTheirThresholds(t *testing.T) {
	f := func(name string, c Scenario, faults faults, missed []threshold, check func(*testing.T, ScenarioResult)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := runFaulty(t, c, faults)
			wantMissed(t, s, missed...)
			if check != nil {
				check(t, s)
			}
		})
	}
	f("unfair", floodScenario(), faults{leaks: true, refusesTeams: true},
		[]threshold{noLeaks, minJain, maxRefusalTime}, func(t *testing.T, s ScenarioResult) {
			if !strings.Contains(strings.Join(s.Notes, "\n"), "2 requests were still held") {
				t.Errorf("notes: %q", s.Notes)
			}
		})
	f("refuses quiet accounts", floodScenario(), faults{refusesQuiet: true}, []threshold{maxQuietTTFT, maxQuietWait}, nil)
	f("misses deadlines", loadScenario(), faults{missesDeadlines: true}, []threshold{noOverdue}, nil)
	f("cuts answers", loadScenario(), faults{cutsAnswers: true}, []threshold{minGoodput}, func(t *testing.T, s ScenarioResult) {
		if v := valueOf(t, s, "1×", "goodput"); v != 0 {
			t.Errorf("all answers were cut, and goodput is %v", v)
		}
		if v := valueOf(t, s, "1×", "failed"); v < 1 {
			t.Errorf("all answers were cut, and %v failed", v)
		}
	})
	f("lies about Retry-After", retryScenario(), faults{liesRetryAfter: true}, []threshold{minSecondAttempt}, func(t *testing.T, s ScenarioResult) {
		if v := valueOf(t, s, "honour", "attempts"); v < 2 {
			t.Errorf("clients with a Retry-After made %v attempts", v)
		}
	})
	f("serves clients that left", leavingScenario(), faults{outlivesClients: true}, []threshold{maxLateDispatch}, func(t *testing.T, s ScenarioResult) {
		if v := valueOf(t, s, "", "wasted"); v <= 0 {
			t.Errorf("engines worked for clients that had left, and %v s were wasted", v)
		}
	})
	f("refuses fast readers", slowReadersScenario(), faults{leaks: true, refusesTeams: true}, []threshold{minFastWork, noLeaks},
		func(t *testing.T, s ScenarioResult) {
			if got := valueOf(t, s, caseOthers, "slots"); got != 0 {
				t.Errorf("refused accounts have %v of the slots", got)
			}
			if lines := s.Charts[0].RefLines; len(lines) != 1 || lines[0].At != 0.45 {
				t.Errorf("the chart's reference lines are %+v", lines)
			}
		})
}

// A delay is judged in proportion to the time alone, which takes long on a busy machine.
func TestDelayMissesItsThreshold(t *testing.T) {
	t.Parallel()
	long := tiny
	long.timeScale = 0.16
	wantMissed(t, runPreset(t, long, floodScenario(), Options{Gateways: []Gateway{faults{delaysQuiet: 2 * time.Second}.gateway()}}), maxQuietTTFT)
}

func TestGatewayWithoutFaults(t *testing.T) {
	t.Parallel()
	patient := tiny
	patient.leakWait = time.Minute
	s := runPreset(t, patient, floodScenario(), Options{Gateways: []Gateway{faults{}.gateway()}})
	for _, r := range s.Thresholds {
		if r.Name == noLeaks.name && !r.Passed || r.Name == maxRefusalTime.name && r.Got.Measured() {
			t.Errorf("of a gateway without faults: %+v", r)
		}
	}
}

// A lost engine refuses connections: a gateway that goes on to send requests to it has them fail.
func TestEngineIsLost(t *testing.T) {
	t.Parallel()
	two := tiny // with so little load that a busy machine can keep the engines busy, too
	two.engines, two.slots, two.timing = 2, 2, timing{80 * time.Millisecond, 20 * time.Millisecond}
	s := runPreset(t, two, engineLostScenario(), Options{Gateways: []Gateway{faults{}.gateway()}})
	wantMissed(t, s, noUnbegun)
	without, before := valueOf(t, s, "", "without"), valueOf(t, s, "", "before")
	if v := valueOf(t, s, "", "no token"); v < 5 || without <= 0 || before <= 0 {
		t.Errorf("%v requests had no token; goodput was %v and then %v", v, before, without)
	}
	if v := valueOf(t, s, "", "recovery"); v >= 1.5 {
		t.Errorf("the gateway uses the engine at once when it is back, and recovery took %v s", v)
	}
	if lines := s.Charts[0].RefLines; len(lines) != 2 || lines[0].At != 0.7 {
		t.Errorf("the chart has the outage at %+v", lines)
	}
}

// Load continues until the measured requests have had their time: none is answered because the load has stopped.
func TestLoadContinuesAfterTheWindow(t *testing.T) {
	for _, c := range []Scenario{classesScenario(), floodScenario(), costlyScenario()} {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			g := &faultyGateway{}
			s := runTiny(t, c, Options{Gateways: []Gateway{g.gateway()}})
			least := tiny.seconds(18.5) + tiny.grace/2
			if c.Name == "classes" {
				least = tiny.seconds(6.5) + tiny.grace/2
			}
			if lasted := time.Duration(g.last.Load() - g.first.Load()); len(s.Rows) == 0 || lasted < least {
				t.Errorf("load lasted %v, want at least %v", lasted, least)
			}
		})
	}
}
