//go:build cgo && linux

package nvml

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"colonnade/worker/gpu"
)

// Read returns the state of all GPUs.
func (d *Driver) Read() gpu.Reading {
	r := gpu.Reading{Time: time.Now(), Driver: d.version, CUDA: d.cuda}
	count, status := d.library.DeviceGetCount()
	if status != nvml.SUCCESS {
		r.None = "the driver does not list its GPUs: " + statusText(status)
		return r
	}
	for i := range min(count, gpu.MaxGPUs) {
		if g, ok := d.read(i); ok {
			r.GPUs = append(r.GPUs, g)
		}
	}
	if count == 0 {
		r.None = "the driver sees no GPU"
	}
	if why := d.noEvents.Load(); why != nil {
		r.NoEvents = *why
	}
	return r
}

// read returns the state of one GPU; not ok if nothing was ever known of it.
func (d *Driver) read(index int) (gpu.GPU, bool) {
	known := d.known[index]
	g := gpu.GPU{Index: index, UUID: known.uuid, Name: known.name}
	device, status := d.library.DeviceGetHandleByIndex(index)
	if status == nvml.SUCCESS {
		var uuid string
		if uuid, status = device.GetUUID(); status == nvml.SUCCESS {
			g.UUID = uuid
			if name, status := device.GetName(); status == nvml.SUCCESS {
				g.Name = name
			}
			d.known[index] = identity{g.UUID, g.Name}
		}
	}
	if status != nvml.SUCCESS {
		g.Lost = statusText(status)
		return g, g.UUID != ""
	}
	f := figures{driver: d, device: device, gpu: &g}
	f.memory()
	f.load()
	f.health()
	f.instances()
	f.processes()
	return g, true
}

// figures reads one GPU.
type figures struct {
	driver *Driver
	device nvml.Device
	gpu    *gpu.GPU
}

// ok reports whether a call has succeeded, and notes what a failure says about the GPU itself.
func (f *figures) ok(status nvml.Return) bool {
	switch status {
	case nvml.SUCCESS:
		return true
	case nvml.ERROR_GPU_IS_LOST:
		f.gpu.Lost = statusText(status)
	case nvml.ERROR_RESET_REQUIRED:
		f.gpu.RecoveryAction = uint32(nvml.GPU_RECOVERY_ACTION_GPU_RESET)
	case nvml.ERROR_NO_PERMISSION:
		f.gpu.PartlyForbidden = true
	}
	return false
}

func (f *figures) memory() {
	f.gpu.MemoryTotal, f.gpu.MemoryUsed = f.memoryOf(f.device)
}

// memoryOf returns the memory of a GPU or of an instance. The newer call does not count what the driver has reserved as used.
func (f *figures) memoryOf(device nvml.Device) (total, used uint64) {
	if f.driver.has["nvmlDeviceGetMemoryInfo_v2"] {
		if m, status := device.GetMemoryInfo_v2(); f.ok(status) {
			return m.Total, m.Used
		}
	}
	if m, status := device.GetMemoryInfo(); f.ok(status) {
		return m.Total, m.Used
	}
	return 0, 0
}

// load reads what the GPU does.
func (f *figures) load() {
	has, device, g := f.driver.has, f.device, f.gpu
	if has["nvmlDeviceGetUtilizationRates"] {
		if u, status := device.GetUtilizationRates(); f.ok(status) {
			g.Utilization = &u.Gpu
		}
	}
	if has["nvmlDeviceGetPowerUsage"] {
		g.Power = f.watts(device.GetPowerUsage())
	}
	if has["nvmlDeviceGetEnforcedPowerLimit"] {
		g.PowerLimit = f.watts(device.GetEnforcedPowerLimit())
	}
	if has["nvmlDeviceGetTemperature"] {
		g.Temperature = f.number(device.GetTemperature(nvml.TEMPERATURE_GPU))
	}
	if has["nvmlDeviceGetClockInfo"] {
		g.SMClock = f.number(device.GetClockInfo(nvml.CLOCK_SM))
		g.MemoryClock = f.number(device.GetClockInfo(nvml.CLOCK_MEM))
	}
	if reasons, status := f.clockReasons(); f.ok(status) {
		g.ClockReasons = &reasons
	}
}

// clockReasons returns why the clocks are not higher: one call under its new and its old name.
func (f *figures) clockReasons() (uint64, nvml.Return) {
	switch {
	case f.driver.has["nvmlDeviceGetCurrentClocksEventReasons"]:
		return f.device.GetCurrentClocksEventReasons()
	case f.driver.has["nvmlDeviceGetCurrentClocksThrottleReasons"]:
		return f.device.GetCurrentClocksThrottleReasons()
	}
	return 0, nvml.ERROR_FUNCTION_NOT_FOUND
}

func (f *figures) watts(milliwatts uint32, status nvml.Return) *float64 {
	if !f.ok(status) {
		return nil
	}
	watts := float64(milliwatts) / 1000
	return &watts
}

func (f *figures) number(n uint32, status nvml.Return) *uint32 {
	if !f.ok(status) {
		return nil
	}
	return &n
}

// health reads what the GPU reports about its memory and itself.
func (f *figures) health() {
	has, device, g := f.driver.has, f.device, f.gpu
	if has["nvmlDeviceGetTotalEccErrors"] {
		corrected, status := device.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.VOLATILE_ECC)
		uncorrected, other := device.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC)
		if f.ok(status) && f.ok(other) {
			g.ECC = &gpu.ECC{Corrected: corrected, Uncorrected: uncorrected}
		}
	}
	remaps := false
	if has["nvmlDeviceGetRemappedRows"] {
		_, _, pending, failed, status := device.GetRemappedRows()
		remaps = f.ok(status)
		g.RemapPending, g.RemapFailed = remaps && pending, remaps && failed
	}
	if !remaps && has["nvmlDeviceGetRetiredPagesPendingStatus"] { // GPUs before Ampere
		pending, status := device.GetRetiredPagesPendingStatus()
		g.RetiredPending = f.ok(status) && pending == nvml.FEATURE_ENABLED
	}
	if has["nvmlDeviceGetFieldValues"] {
		f.fields()
	}
}

func (f *figures) fields() {
	values := []nvml.FieldValue{{FieldId: nvml.FI_DEV_GET_GPU_RECOVERY_ACTION}, {FieldId: nvml.FI_DEV_MEMORY_TEMP}}
	if !f.ok(f.device.GetFieldValues(values)) {
		return
	}
	if n, ok := fieldValue(values[0]); ok && n != 0 {
		f.gpu.RecoveryAction = n
	}
	if n, ok := fieldValue(values[1]); ok && n != 0 { // 0: the GPU has no such sensor
		f.gpu.MemoryTemperature = &n
	}
}

// fieldValue returns a field that is a whole number of 32 bits; the driver says for each field whether it has it.
func fieldValue(v nvml.FieldValue) (uint32, bool) {
	return binary.NativeEndian.Uint32(v.Value[:]), nvml.Return(v.NvmlReturn) == nvml.SUCCESS && nvml.ValueType(v.ValueType) == nvml.VALUE_TYPE_UNSIGNED_INT
}

func (f *figures) instances() {
	for _, name := range []string{"nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex",
		"nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetComputeInstanceId"} {
		if !f.driver.has[name] {
			return
		}
	}
	mode, _, status := f.device.GetMigMode()
	if !f.ok(status) || mode != nvml.DEVICE_MIG_ENABLE {
		return
	}
	f.gpu.MIG = true
	count, status := f.device.GetMaxMigDeviceCount()
	if !f.ok(status) {
		return
	}
	for i := range min(count, gpu.MaxInstances) {
		if part, status := f.device.GetMigDeviceHandleByIndex(i); status == nvml.SUCCESS { // most places are empty
			f.instance(part)
		}
	}
}

func (f *figures) instance(part nvml.Device) {
	uuid, status := part.GetUUID()
	if !f.ok(status) {
		return
	}
	of, status := part.GetGpuInstanceId()
	if !f.ok(status) {
		return
	}
	compute, status := part.GetComputeInstanceId()
	if !f.ok(status) {
		return
	}
	i := gpu.Instance{UUID: uuid, GPUInstance: uint32(of), Compute: uint32(compute)}
	i.MemoryTotal, i.MemoryUsed = f.memoryOf(part)
	f.gpu.Instances = append(f.gpu.Instances, i)
}

// processes reads which processes compute on the GPU. Some drivers number them as a container does, most as the host does.
func (f *figures) processes() {
	has := f.driver.has
	if !has["nvmlDeviceGetComputeRunningProcesses"] && !has["nvmlDeviceGetComputeRunningProcesses_v2"] && !has["nvmlDeviceGetComputeRunningProcesses_v3"] {
		return
	}
	list, status := f.device.GetComputeRunningProcesses()
	if !f.ok(status) {
		return
	}
	for _, on := range list[:min(len(list), gpu.MaxProcesses)] {
		p := gpu.Process{PID: int(on.Pid), GPUInstance: on.GpuInstanceId, Compute: on.ComputeInstanceId}
		if on.UsedGpuMemory != math.MaxUint64 { // NVML_VALUE_NOT_AVAILABLE
			p.Memory = &on.UsedGpuMemory
		}
		f.gpu.Processes = append(f.gpu.Processes, p)
	}
}
