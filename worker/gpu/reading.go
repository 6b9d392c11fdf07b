// Package gpu describes what the GPUs of a machine do, as the program colonnade-gpus prints it: lines of JSON, each with a [Reading] of all
// GPUs or with an [Event] of one. It decides which GPUs a process uses ([Proc]), and which of them no request should run on ([Verdicts]).
//
// The package never calls the driver. Only package nvml does, in a process of its own, since a call of a driver may never return.
package gpu

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"
	"unicode"
)

// Bounds of a line. A machine has at most 16 GPUs with at most 7 MIG instances each today.
const (
	MaxLine      = 1 << 20 // bytes
	MaxGPUs      = 64
	MaxInstances = 64   // of one GPU
	MaxProcesses = 4096 // of one GPU
	maxText      = 256  // bytes of a name or a reason
	maxXid       = 9999 // NVIDIA has about 170
)

// Line is one line of colonnade-gpus: it has either a reading or an event.
type Line struct {
	Reading *Reading `json:"reading,omitempty"`
	Event   *Event   `json:"event,omitempty"`
}

// Reading is the state of all GPUs at one time.
type Reading struct {
	Time   time.Time `json:"time"`
	Driver string    `json:"driver,omitempty"` // version of the driver
	CUDA   string    `json:"cuda,omitempty"`   // newest version of CUDA that the driver supports
	GPUs   []GPU     `json:"gpus,omitempty"`
	None   string    `json:"none,omitempty"` // why nothing is known; "" = something is
	// NoEvents says why events cannot be seen; "" = they are.
	NoEvents string `json:"no_events,omitempty"`
}

// GPU is the state of one GPU. A figure that the GPU or its driver does not have is nil.
type GPU struct {
	Index int    `json:"index"`
	UUID  string `json:"uuid"`
	Name  string `json:"name,omitempty"`
	Lost  string `json:"lost,omitempty"` // why it does not answer; "" = it does, and "" too where only a figure is missing

	MemoryTotal       uint64   `json:"memory_total,omitempty"` // bytes
	MemoryUsed        uint64   `json:"memory_used,omitempty"`  // bytes
	Utilization       *uint32  `json:"utilization,omitempty"`  // percent of the last sample period in which a kernel ran
	Power             *float64 `json:"power,omitempty"`        // W
	PowerLimit        *float64 `json:"power_limit,omitempty"`  // W, in force
	Temperature       *uint32  `json:"temperature,omitempty"`  // °C
	MemoryTemperature *uint32  `json:"memory_temperature,omitempty"`
	SMClock           *uint32  `json:"sm_clock,omitempty"`      // MHz
	MemoryClock       *uint32  `json:"memory_clock,omitempty"`  // MHz
	ClockReasons      *uint64  `json:"clock_reasons,omitempty"` // bits of nvmlClocksEventReasons

	ECC             *ECC   `json:"ecc,omitempty"`
	RemapPending    bool   `json:"remap_pending,omitempty"`    // a row of memory is replaced at the next reset
	RemapFailed     bool   `json:"remap_failed,omitempty"`     // a row of memory could not be replaced
	RetiredPending  bool   `json:"retired_pending,omitempty"`  // a page of memory is retired when the driver is loaded next
	RecoveryAction  uint32 `json:"recovery_action,omitempty"`  // what the driver asks for: nvmlDeviceGpuRecoveryAction_t
	MIG             bool   `json:"mig,omitempty"`              // is divided into instances
	PartlyForbidden bool   `json:"partly_forbidden,omitempty"` // the driver refuses some figures to this user

	Instances []Instance `json:"instances,omitempty"` // MIG
	Processes []Process  `json:"processes,omitempty"` // that compute on it
}

// ECC counts errors of memory since the driver was loaded (volatile counters).
type ECC struct {
	Corrected   uint64 `json:"corrected"`
	Uncorrected uint64 `json:"uncorrected"`
}

// Instance is a MIG instance of a GPU.
type Instance struct {
	UUID        string `json:"uuid"`
	GPUInstance uint32 `json:"gi"`
	Compute     uint32 `json:"ci"`
	MemoryTotal uint64 `json:"memory_total,omitempty"` // bytes
	MemoryUsed  uint64 `json:"memory_used,omitempty"`  // bytes
}

// NoInstance is the number of an instance where there is none.
const NoInstance = 0xFFFFFFFF

// Process is a process that computes on a GPU.
type Process struct {
	PID         int     `json:"pid"`              // as the driver numbers it, which is in the namespace of the host
	Memory      *uint64 `json:"memory,omitempty"` // bytes
	GPUInstance uint32  `json:"gi"`               // NoInstance without MIG
	Compute     uint32  `json:"ci"`
}

// Event is an error that the driver has reported as it happened.
type Event struct {
	Time        time.Time `json:"time"`
	GPU         string    `json:"gpu"`           // UUID; "" = the driver did not say
	Xid         uint64    `json:"xid,omitempty"` // number of NVIDIA's catalogue; 0 = an error of memory that could not be corrected
	GPUInstance uint32    `json:"gi"`            // NoInstance if it concerns all of the GPU
	Compute     uint32    `json:"ci"`
}

// ParseLine reads a line of colonnade-gpus, which is not trusted: the program may be of another version, or damaged by a broken driver.
func ParseLine(b []byte) (Line, error) {
	var l Line
	if len(b) > MaxLine {
		return l, fmt.Errorf("it has %d bytes, at most %d", len(b), MaxLine)
	}
	decoder := json.NewDecoder(bytes.NewReader(b))
	if err := decoder.Decode(&l); err != nil {
		return Line{}, fmt.Errorf("it is no JSON of this version: %w", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return Line{}, fmt.Errorf("something follows the JSON")
	}
	if (l.Reading == nil) == (l.Event == nil) {
		return Line{}, fmt.Errorf("it needs either a reading or an event")
	}
	if err := l.check(); err != nil {
		return Line{}, err
	}
	return l, nil
}

func (l Line) check() error {
	if e := l.Event; e != nil {
		if e.Xid > maxXid {
			return fmt.Errorf("its Xid is %d", e.Xid)
		}
		return checkTexts(e.GPU)
	}
	r := l.Reading
	if err := checkTexts(r.Driver, r.CUDA, r.None, r.NoEvents); err != nil {
		return err
	}
	if len(r.GPUs) > MaxGPUs {
		return fmt.Errorf("it has %d GPUs, at most %d", len(r.GPUs), MaxGPUs)
	}
	for i := range r.GPUs {
		if err := r.GPUs[i].check(); err != nil {
			return fmt.Errorf("GPU %d: %w", i, err)
		}
	}
	return nil
}

func (g *GPU) check() error {
	switch {
	case g.UUID == "":
		return fmt.Errorf("it has no uuid")
	case g.Index < 0 || g.Index > 1024:
		return fmt.Errorf("its index is %d", g.Index)
	case len(g.Instances) > MaxInstances:
		return fmt.Errorf("it has %d instances, at most %d", len(g.Instances), MaxInstances)
	case len(g.Processes) > MaxProcesses:
		return fmt.Errorf("it has %d processes, at most %d", len(g.Processes), MaxProcesses)
	}
	for _, i := range g.Instances {
		if err := checkTexts(i.UUID); err != nil {
			return err
		}
	}
	return checkTexts(g.UUID, g.Name, g.Lost)
}

// checkTexts refuses texts that are long, or have characters which would change a terminal or a line of a log.
func checkTexts(texts ...string) error {
	for _, s := range texts {
		if len(s) > maxText {
			return fmt.Errorf("a text has %d bytes, at most %d", len(s), maxText)
		}
		for _, r := range s {
			if !unicode.IsPrint(r) {
				return fmt.Errorf("%q has a character that cannot be printed", s)
			}
		}
	}
	return nil
}
