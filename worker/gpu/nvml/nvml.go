//go:build cgo && linux

package nvml

// go-nvml leaves the functions of the library open until each is called. The compilers of some distributions bind all of them as a program
// starts, and then it does not start without the library. The flag -Wl,-z,lazy prevents that: the Makefile and the releases set it.

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"colonnade/worker/gpu"
)

// libraryName is the name of the library in the search path of the dynamic linker.
const libraryName = "libnvidia-ml.so.1"

// required are functions without which nothing is read. All drivers since 2014 have them.
var required = []string{"nvmlInit_v2", "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetUUID", "nvmlDeviceGetName",
	"nvmlDeviceGetMemoryInfo", "nvmlSystemGetDriverVersion"}

// Driver is the driver of the machine's GPUs. Read and Wait may be called at the same time.
type Driver struct {
	library       nvml.Interface
	has           map[string]bool // functions beside the required ones
	version, cuda string
	known         map[int]identity
	noEvents      atomic.Pointer[string] // why there are no events; nil = there are

	// Owned by Open and Wait, one after the other.
	events  nvml.EventSet          // nil = no GPU reports events
	devices map[nvml.Device]string // UUIDs of the GPUs with events, which a GPU that is lost does not say any more; nil = there never was one
}

// identity is what a GPU keeps, also when it does not answer any more.
type identity struct{ uuid, name string }

// Open loads the library, by its name if the path is empty, and finds the GPUs.
func Open(path string) (*Driver, error) {
	if path == "" {
		path = libraryName
	}
	if err := probe(path); err != nil {
		return nil, err
	}
	d := &Driver{library: nvml.New(nvml.WithLibraryPath(path)), known: map[int]identity{}, devices: map[nvml.Device]string{}}
	if status := d.library.Init(); status != nvml.SUCCESS {
		return nil, fmt.Errorf("the driver of the GPUs is not ready: %s", statusText(status))
	}
	d.has = lookUp(d.library)
	if version, status := d.library.SystemGetDriverVersion(); status == nvml.SUCCESS {
		d.version = version
	}
	if n, status := d.cudaVersion(); status == nvml.SUCCESS {
		d.cuda = fmt.Sprintf("%d.%d", n/1000, n%1000/10)
	}
	if d.register(); d.events == nil {
		d.devices = nil
		_ = d.setNoEvents(ErrNoEvents)
	}
	return d, nil
}

// probe finds out whether the library can be loaded, and has what cannot be done without.
func probe(path string) error {
	library := dl.New(path, dl.RTLD_LAZY|dl.RTLD_GLOBAL)
	if err := library.Open(); err != nil {
		return fmt.Errorf("no driver of NVIDIA: %w", err)
	}
	for _, name := range required {
		if library.Lookup(name) != nil {
			return fmt.Errorf("the library %s of the driver has no %s: it is too old, or no NVML", path, name)
		}
	}
	return nil
}

// optional are functions that some drivers lack.
var optional = []string{"nvmlDeviceGetMemoryInfo_v2", "nvmlSystemGetCudaDriverVersion_v2", "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetPowerUsage",
	"nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetTemperature", "nvmlDeviceGetClockInfo", "nvmlDeviceGetCurrentClocksEventReasons",
	"nvmlDeviceGetCurrentClocksThrottleReasons", "nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetRemappedRows",
	"nvmlDeviceGetRetiredPagesPendingStatus", "nvmlDeviceGetFieldValues", "nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount",
	"nvmlDeviceGetMigDeviceHandleByIndex", "nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetComputeInstanceId",
	"nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses_v3",
	"nvmlEventSetCreate", "nvmlEventSetFree", "nvmlEventSetWait_v2", "nvmlDeviceRegisterEvents", "nvmlDeviceGetSupportedEventTypes"}

func lookUp(library nvml.Interface) map[string]bool {
	found := map[string]bool{}
	for _, name := range optional {
		found[name] = library.Extensions().LookupSymbol(name) == nil
	}
	return found
}

func (d *Driver) cudaVersion() (int, nvml.Return) {
	if !d.has["nvmlSystemGetCudaDriverVersion_v2"] {
		return 0, nvml.ERROR_FUNCTION_NOT_FOUND
	}
	return d.library.SystemGetCudaDriverVersion_v2()
}

// register asks for the events of all GPUs, again after a failure. A driver or a GPU that has none is read all the same.
func (d *Driver) register() {
	for _, name := range []string{"nvmlEventSetCreate", "nvmlEventSetWait_v2", "nvmlDeviceRegisterEvents", "nvmlDeviceGetSupportedEventTypes"} {
		if !d.has[name] {
			return
		}
	}
	if d.events != nil {
		d.free(d.events)
	}
	d.events = nil
	set, status := d.library.EventSetCreate()
	if status != nvml.SUCCESS {
		return
	}
	count, status := d.library.DeviceGetCount()
	if status != nvml.SUCCESS {
		count = 0
	}
	for i := range min(count, gpu.MaxGPUs) {
		if device, status := d.library.DeviceGetHandleByIndex(i); status == nvml.SUCCESS && d.registerDevice(device, set) {
			d.events = set
		}
	}
	if d.events == nil { // Wait tries again, with another one
		d.free(set)
	}
}

// free frees a set that is not used any more. A driver that has lost a GPU may refuse.
func (d *Driver) free(set nvml.EventSet) {
	if d.has["nvmlEventSetFree"] {
		_ = d.library.EventSetFree(set)
	}
}

// registerDevice adds the events of one GPU to a set, and reports whether it has any.
func (d *Driver) registerDevice(device nvml.Device, set nvml.EventSet) bool {
	const wanted = nvml.EventTypeXidCriticalError | nvml.EventTypeDoubleBitEccError
	supported, status := device.GetSupportedEventTypes()
	if status != nvml.SUCCESS || device.RegisterEvents(supported&wanted, set) != nvml.SUCCESS {
		return false
	}
	if uuid, status := device.GetUUID(); status == nvml.SUCCESS {
		d.devices[device] = uuid
	}
	return true
}

// Wait waits so long for an event of any GPU. An error other than [ErrNoEvents] may pass, as one because a GPU is lost: the events of the others
// are asked for again, and the caller should pause before it calls Wait again.
func (d *Driver) Wait(longest time.Duration) (e gpu.Event, ok bool, err error) {
	if d.events == nil && d.devices == nil {
		return gpu.Event{}, false, ErrNoEvents
	}
	if d.events == nil {
		if d.register(); d.events == nil {
			return gpu.Event{}, false, d.setNoEvents(errors.New("no GPU reports events any more"))
		}
	}
	data, status := d.library.EventSetWait(d.events, uint32(longest.Milliseconds()))
	switch {
	case status == nvml.ERROR_TIMEOUT:
		d.noEvents.Store(nil)
		return gpu.Event{}, false, nil
	case status != nvml.SUCCESS:
		d.register()
		return gpu.Event{}, false, d.setNoEvents(errors.New("events of GPUs cannot be waited for: " + statusText(status)))
	}
	d.noEvents.Store(nil)
	e, ok = d.eventOf(data)
	return e, ok, nil
}

// setNoEvents says in readings why there are no events.
func (d *Driver) setNoEvents(err error) error {
	text := err.Error()
	d.noEvents.Store(&text)
	return err
}

func (d *Driver) eventOf(data nvml.EventData) (e gpu.Event, ok bool) {
	e = gpu.Event{Time: time.Now(), GPUInstance: data.GpuInstanceId, Compute: data.ComputeInstanceId, GPU: d.devices[data.Device]}
	switch data.EventType {
	case nvml.EventTypeXidCriticalError:
		e.Xid = data.EventData
	case nvml.EventTypeDoubleBitEccError:
	default:
		return gpu.Event{}, false
	}
	if uuid, status := data.Device.GetUUID(); status == nvml.SUCCESS {
		e.GPU = uuid
	}
	return e, true
}

// statusText says what a status of NVML means. The library's own texts are not asked for: it may not be ready for any call.
func statusText(status nvml.Return) string {
	texts := map[nvml.Return]string{
		nvml.ERROR_NO_PERMISSION:           "this user may not use it",
		nvml.ERROR_DRIVER_NOT_LOADED:       "it is not loaded",
		nvml.ERROR_LIBRARY_NOT_FOUND:       "its library is not found",
		nvml.ERROR_GPU_IS_LOST:             "the GPU is lost: it has fallen off the bus, or cannot be reached otherwise",
		nvml.ERROR_RESET_REQUIRED:          "the GPU must be reset before it can be used",
		nvml.ERROR_LIB_RM_VERSION_MISMATCH: "its library has another version than the driver that is loaded: restart the machine after an update",
		nvml.ERROR_TIMEOUT:                 "it did not answer in time",
		nvml.ERROR_UNKNOWN:                 "an internal error of the driver",
	}
	text := texts[status]
	if text == "" {
		text = "it refuses"
	}
	return strings.TrimSpace(fmt.Sprintf("%s (NVML status %d)", text, int(status)))
}
