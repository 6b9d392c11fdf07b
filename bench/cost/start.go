package cost

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"colonnade/bench/child"
)

// starts starts one process several times, each until its first answer.
func (m *measurement) starts(ctx context.Context) (*Start, error) {
	c, s := serveContestant(), &Start{}
	for n := range m.size.Starts {
		m.step("start", c.Name, fmt.Sprintf("start %d of %d", n+1, m.size.Starts))
		began := time.Now()
		r, err := m.place.launch(ctx, &c)
		if err != nil {
			return nil, err
		}
		s.FirstAnswer = append(s.FirstAnswer, micros(time.Since(began))/1e3)
		if n == m.size.Starts-1 {
			sleep(ctx, m.size.Settle)
		}
		memory, err := child.ResidentMemory(r.pids()...)
		s.Rest, s.RestOwn = memory.All, memory.Own
		if stopErr := r.stop(); err == nil {
			err = stopErr
		}
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// programs returns the binaries with their sizes.
func (p *place) sizes() (all []Program, err error) {
	for _, name := range []string{"entry", "colo", "colonnade"} {
		info, err := os.Stat(filepath.Join(p.programs, name))
		if err != nil {
			return nil, fmt.Errorf("cannot find a program: %w; make build builds it", err)
		}
		all = append(all, Program{name, float64(info.Size())})
	}
	return all, nil
}
