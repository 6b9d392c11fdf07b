package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"

	"colonnade/worker/gpu"
	"colonnade/worker/gpu/nvml"
)

// printer writes lines, one at a time.
type printer struct {
	mu sync.Mutex
	to io.Writer
}

func (p *printer) print(l gpu.Line) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err = p.to.Write(append(text, '\n'))
	return err
}

// printOnce prints one reading for people.
func printOnce(to io.Writer, library string) error {
	driver, err := nvml.Open(library)
	if err != nil {
		return err
	}
	reading := driver.Read()
	if reading.None != "" {
		return errors.New(reading.None)
	}
	fmt.Fprintf(to, "driver %s, CUDA %s\n\n", reading.Driver, reading.CUDA)
	return table(to, reading.GPUs)
}

func table(to io.Writer, gpus []gpu.GPU) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "GPU\tname\tUUID\tmemory MiB\tused %\tW\tlimit W\t°C\tSM MHz\tECC errors\tprocesses\tremarks")
	for _, g := range gpus {
		fmt.Fprintf(w, "%d\t%s\t%s\t%d of %d\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", g.Index, g.Name, g.UUID, g.MemoryUsed>>20, g.MemoryTotal>>20,
			text(g.Utilization), text(g.Power), text(g.PowerLimit), text(g.Temperature), text(g.SMClock), errorCounts(g.ECC), len(g.Processes),
			strings.Join(remarks(g), "; "))
		for _, i := range g.Instances {
			fmt.Fprintf(w, "\tMIG %d/%d\t%s\t%d of %d\n", i.GPUInstance, i.Compute, i.UUID, i.MemoryUsed>>20, i.MemoryTotal>>20)
		}
	}
	return w.Flush()
}

// text returns a figure, or a dash if the GPU has none.
func text[T uint32 | float64](figure *T) string {
	if figure == nil {
		return "-"
	}
	return fmt.Sprint(*figure)
}

func errorCounts(ecc *gpu.ECC) string {
	if ecc == nil {
		return "-"
	}
	return fmt.Sprintf("%d corrected, %d not", ecc.Corrected, ecc.Uncorrected)
}

func remarks(g gpu.GPU) []string {
	var found []string
	if g.Lost != "" {
		found = append(found, "lost: "+g.Lost)
	}
	if action := gpu.RecoveryText(g.RecoveryAction); action != "" {
		found = append(found, action)
	}
	if g.RemapFailed {
		found = append(found, "a row of memory could not be remapped")
	}
	if g.RemapPending || g.RetiredPending {
		found = append(found, "memory is replaced at the next reset")
	}
	if g.ClockReasons != nil {
		found = append(found, gpu.ClockReasonNames(*g.ClockReasons)...)
	}
	return found
}
