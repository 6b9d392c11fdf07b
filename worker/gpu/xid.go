package gpu

import "fmt"

// action is what NVIDIA asks for after an Xid.
type action int

const (
	actionUnknown action = iota // not in the table: noted
	actionNote                  // a fault of the application, or nothing to do at once: noted
	actionReset                 // the GPU needs a reset
	actionReboot                // the machine must be restarted, or power is missing
)

// An xid is an error that the driver reports.
type xid struct {
	name   string
	action action
}

// xids are those of NVIDIA's catalogue that a data centre sees, with its immediate action:
// https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html (IGNORE and RESTART_APP are actionNote, RESET_GPU is actionReset,
// RESTART_BM, RESTART_VM and CHECK_MECHANICALS are actionReboot). Where it names a workflow:
//
//   - 45 follows another error, which counts by itself;
//   - 48 needs a reset, alone or with 63 or 64;
//   - 74 needs a reset of the GPU or a restart of the machine;
//   - 144 to 150 depend on registers that NVML does not report. Drivers that know them also say which action is needed, which Verdicts follows.
//
// 109 is an exception: the catalogue asks for a reset, but long kernels and debuggers cause it too, and NVIDIA's own device plugin for
// Kubernetes ignores it, as it does 13, 31, 43, 45 and 68:
// https://github.com/NVIDIA/k8s-device-plugin/blob/main/internal/rm/health.go
// A driver that finds a reset necessary after it says so itself (see recoveryActions).
var xids = map[uint64]xid{
	8:   {"GPU stopped processing", actionNote},
	11:  {"invalid or corrupted push buffer", actionNote},
	13:  {"graphics engine exception", actionNote},
	25:  {"invalid or illegal push buffer", actionNote},
	31:  {"GPU memory page fault", actionNote},
	32:  {"invalid or corrupted push buffer", actionNote},
	37:  {"driver firmware error", actionNote},
	38:  {"driver firmware error", actionNote},
	39:  {"copy engine exception", actionNote},
	40:  {"copy engine exception", actionNote},
	41:  {"copy engine exception", actionNote},
	43:  {"GPU stopped processing", actionNote},
	44:  {"graphics engine fault during a context switch", actionNote},
	45:  {"preemptive cleanup after another error", actionNote},
	46:  {"GPU stopped processing", actionReset},
	48:  {"double-bit ECC error", actionReset},
	54:  {"auxiliary power is not connected", actionReboot},
	62:  {"internal micro-controller halt", actionReset},
	63:  {"memory row remapped or page retired", actionNote},
	64:  {"memory row could not be remapped, or page not retired", actionReset},
	66:  {"illegal access by the driver", actionNote},
	67:  {"illegal access by the driver", actionNote},
	68:  {"video decoder exception", actionNote},
	69:  {"graphics engine class error", actionNote},
	74:  {"NVLink error", actionReset},
	79:  {"GPU has fallen off the bus", actionReboot},
	92:  {"high rate of single-bit ECC errors", actionNote},
	93:  {"wear limit of the InfoROM", actionNote},
	94:  {"contained memory error", actionNote},
	95:  {"uncontained memory error", actionReset},
	109: {"context switch timeout", actionNote},
	110: {"security fault", actionReset},
	119: {"GSP RPC timeout", actionReset},
	120: {"GSP error", actionReset},
	121: {"C2C error", actionNote},
	136: {"link training failed", actionReset},
	137: {"NVLink privilege error", actionNote},
	140: {"unrecovered ECC error", actionReset},
	143: {"GPU initialization error", actionReset},
	151: {"key rotation error", actionReboot},
	154: {"recovery action changed", actionNote}, // the action itself is read
	155: {"NVLink error defined by software", actionReset},
	156: {"resource retired", actionReset},
	157: {"resource could not be retired", actionNote},
	158: {"GPU fatal timeout", actionReset},
	160: {"channel retired", actionReboot},
	161: {"channel could not be retired", actionNote},
	171: {"uncorrectable DRAM error, with Xid 48", actionNote},
	172: {"uncorrectable SRAM error, with Xid 48", actionNote},
}

// needs says what an action is about, as the end of a sentence.
func (a action) needs() string {
	switch a {
	case actionReset:
		return "it needs a reset"
	case actionReboot:
		return "the machine must be restarted"
	case actionNote:
		return "the GPU goes on"
	default:
		return "see NVIDIA's catalogue of Xids"
	}
}

// out reports whether no request should run on a GPU with such an error.
func (a action) out() bool { return a == actionReset || a == actionReboot }

// xidText says what an Xid is about: "Xid 79, GPU has fallen off the bus".
func xidText(number uint64) string {
	if x, ok := xids[number]; ok {
		return fmt.Sprintf("Xid %d, %s", number, x.name)
	}
	return fmt.Sprintf("Xid %d", number)
}

// Recovery actions of the driver: nvmlDeviceGpuRecoveryAction_t of NVML 12.7 and later,
// https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html. A driver reports in the field
// NVML_FI_DEV_GET_GPU_RECOVERY_ACTION what a GPU needs now, and none after it has been done.
var recoveryActions = map[uint32]struct {
	text string
	out  bool
}{
	1: {"the driver asks for a reset of the GPU", true},
	2: {"the driver asks for a restart of the machine", true},
	3: {"the driver asks to stop traffic between GPUs", false},
	4: {"the driver asks to drain the GPU and reset it", true},
	5: {"the driver asks to recover the IMEX domain", false},
	6: {"the driver asks for a reset of the GPU's bus", true},
	7: {"the driver asks for a restart of the machine", true},
}

// RecoveryText says what the driver asks for by a recovery action; "" for none.
func RecoveryText(action uint32) string {
	if a, ok := recoveryActions[action]; ok || action == 0 {
		return a.text
	}
	return fmt.Sprintf("the driver asks for the recovery action %d, which is not known here", action)
}
