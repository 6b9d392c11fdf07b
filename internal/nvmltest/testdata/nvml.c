// A library with the functions of NVIDIA's NVML that colonnade-gpus calls. It answers from the text file that the variable FAKE_NVML names,
// which a test may replace at any time; h200.txt shows what stands there. Compiled with -DOLD_DRIVER, it lacks what older drivers lack.
//
// Types and numbers are those of NVML: https://docs.nvidia.com/deploy/nvml-api/index.html

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef int status;
enum { OK = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, TIMEOUT = 10, NO_MEMORY = 20 };
enum { GPUS = 16, PLACES = 8, MAX_EVENTS = 64 };

// A device is an address: &gpus[i], or &parts[i][j] for a MIG instance.
typedef char *device;
static char gpus[GPUS], parts[GPUS][PLACES];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char text[1 << 16];

static void load(void) {
	const char *name = getenv("FAKE_NVML");
	FILE *f = name ? fopen(name, "r") : NULL;
	if (!f) return;
	text[0] = '\n';
	size_t n = fread(text + 1, 1, sizeof text - 2, f);
	text[n + 1] = 0;
	fclose(f);
}

// find copies what follows the key in its line, and reports whether there is such a line.
static int find(const char *key, char *to, size_t size) {
	char pattern[160];
	snprintf(pattern, sizeof pattern, "\n%s ", key);
	pthread_mutex_lock(&lock);
	char *at = strstr(text, pattern);
	if (at) {
		at += strlen(pattern);
		size_t n = strcspn(at, "\n");
		if (n >= size) n = size - 1;
		memcpy(to, at, n);
		to[n] = 0;
	}
	pthread_mutex_unlock(&lock);
	return at != NULL;
}

static int index_of(device d, int *place) {
	*place = -1;
	if (d >= gpus && d < gpus + GPUS) return (int)(d - gpus);
	long at = d - &parts[0][0];
	*place = (int)(at % PLACES);
	return (int)(at / PLACES);
}

// field finds "gpu N KEY VALUE", or "mig N PLACE KEY VALUE".
static int field(device d, const char *key, char *to, size_t size) {
	char name[96];
	int place, i = index_of(d, &place);
	if (place < 0)
		snprintf(name, sizeof name, "gpu %d %s", i, key);
	else
		snprintf(name, sizeof name, "mig %d %d %s", i, place, key);
	return find(name, to, size);
}

// begin is the first statement of each call: "hang FUNCTION" makes it hang, "die FUNCTION" ends the process, and
// "fail FUNCTION NUMBER" and "gpu N FUNCTION status NUMBER" make it fail.
static status begin(device d, const char *function) {
	char key[96], value[32];
	snprintf(key, sizeof key, "hang %s", function);
	while (find(key, value, sizeof value)) {
		sleep(1);
	}
	snprintf(key, sizeof key, "die %s", function);
	if (find(key, value, sizeof value)) abort();
	snprintf(key, sizeof key, "fail %s", function);
	if (find(key, value, sizeof value)) return atoi(value);
	if (d) {
		snprintf(key, sizeof key, "%s status", function);
		if (field(d, key, value, sizeof value)) return atoi(value);
	}
	return OK;
}

#define BEGIN(d)                                                                                                                        \
	do {                                                                                                                                \
		status failed = begin(d, __func__);                                                                                             \
		if (failed) return failed;                                                                                                      \
	} while (0)

static status copy(device d, const char *key, char *to, unsigned size) { return field(d, key, to, size) ? OK : NOT_SUPPORTED; }

static status number(device d, const char *key, unsigned long long *to) {
	char value[64];
	if (!field(d, key, value, sizeof value)) return NOT_SUPPORTED;
	*to = strtoull(value, NULL, 0);
	return OK;
}

static status number32(device d, const char *key, unsigned *to) {
	unsigned long long n;
	status s = number(d, key, &n);
	if (s == OK) *to = (unsigned)n;
	return s;
}

status nvmlInit_v2(void) {
	char value[32];
	load();
	BEGIN(NULL);
	return find("init", value, sizeof value) ? atoi(value) : OK;
}

status nvmlShutdown(void) { return OK; }

const char *nvmlErrorString(status s) {
	(void)s;
	return "an error of the library for tests";
}

status nvmlSystemGetDriverVersion(char *to, unsigned size) { return find("driver", to, size) ? OK : NOT_SUPPORTED; }

status nvmlSystemGetCudaDriverVersion_v2(int *to) {
	char value[32];
	if (!find("cuda", value, sizeof value)) return NOT_SUPPORTED;
	*to = atoi(value);
	return OK;
}

status nvmlDeviceGetCount_v2(unsigned *count) {
	char value[32];
	pthread_mutex_lock(&lock);
	load();
	pthread_mutex_unlock(&lock);
	BEGIN(NULL);
	*count = find("count", value, sizeof value) ? (unsigned)atoi(value) : 0;
	return OK;
}

status nvmlDeviceGetHandleByIndex_v2(unsigned i, device *to) {
	*to = &gpus[i];
	BEGIN(*to);
	return OK;
}

status nvmlDeviceGetUUID(device d, char *to, unsigned size) {
	BEGIN(d);
	return copy(d, "uuid", to, size);
}

status nvmlDeviceGetName(device d, char *to, unsigned size) {
	BEGIN(d);
	return copy(d, "name", to, size);
}

struct memory {
	unsigned long long total, free, used;
};

// The first version of the call counts what the driver has reserved as used.
status nvmlDeviceGetMemoryInfo(device d, struct memory *to) {
	unsigned long long reserved = 0;
	BEGIN(d);
	if (number(d, "memory_total", &to->total) != OK || number(d, "memory_used", &to->used) != OK) return NOT_SUPPORTED;
	number(d, "memory_reserved", &reserved);
	to->used += reserved;
	to->free = to->total - to->used;
	return OK;
}

struct utilization {
	unsigned gpu, memory;
};

status nvmlDeviceGetUtilizationRates(device d, struct utilization *to) {
	BEGIN(d);
	to->memory = 0;
	return number32(d, "utilization", &to->gpu);
}

status nvmlDeviceGetPowerUsage(device d, unsigned *to) {
	BEGIN(d);
	return number32(d, "power_mw", to);
}

status nvmlDeviceGetEnforcedPowerLimit(device d, unsigned *to) {
	BEGIN(d);
	return number32(d, "power_limit_mw", to);
}

status nvmlDeviceGetTemperature(device d, int sensor, unsigned *to) {
	(void)sensor;
	BEGIN(d);
	return number32(d, "temperature", to);
}

status nvmlDeviceGetClockInfo(device d, int kind, unsigned *to) {
	BEGIN(d);
	return number32(d, kind == 1 ? "sm_clock" : "memory_clock", to); // NVML_CLOCK_SM = 1, NVML_CLOCK_MEM = 2
}

status nvmlDeviceGetCurrentClocksThrottleReasons(device d, unsigned long long *to) {
	BEGIN(d);
	return number(d, "clock_reasons", to);
}

status nvmlDeviceGetTotalEccErrors(device d, int type, int counter, unsigned long long *to) {
	(void)counter;
	BEGIN(d);
	return number(d, type == 0 ? "ecc_corrected" : "ecc_uncorrected", to);
}

status nvmlDeviceGetRetiredPagesPendingStatus(device d, unsigned *to) {
	BEGIN(d);
	return number32(d, "retired_pending", to);
}

// Lines "process GPU PID MEMORY GI CI", in order.
struct process {
	unsigned pid;
	unsigned long long memory;
	unsigned gi, ci;
};

static status processes(device d, unsigned *count, struct process *to) {
	int place, gpu = index_of(d, &place);
	char key[32];
	unsigned found = 0;
	snprintf(key, sizeof key, "\nprocess %d ", gpu);
	pthread_mutex_lock(&lock);
	for (char *at = text; (at = strstr(at, key)) != NULL;) {
		at += strlen(key);
		struct process p = {0, 0, 0xFFFFFFFF, 0xFFFFFFFF};
		sscanf(at, "%u %llu %u %u", &p.pid, &p.memory, &p.gi, &p.ci);
		if (found < *count) to[found] = p;
		found++;
	}
	pthread_mutex_unlock(&lock);
	status s = found > *count ? TOO_SMALL : OK;
	*count = found;
	return s;
}

#ifdef OLD_DRIVER

struct old_process {
	unsigned pid;
	unsigned long long memory;
};

status nvmlDeviceGetComputeRunningProcesses(device d, unsigned *count, struct old_process *to) {
	struct process found[64];
	unsigned n = *count < 64 ? *count : 64;
	BEGIN(d);
	status s = processes(d, &n, found);
	for (unsigned i = 0; s == OK && i < n; i++) {
		to[i].pid = found[i].pid;
		to[i].memory = found[i].memory;
	}
	*count = n;
	return s;
}

#else

struct memory_v2 {
	unsigned version;
	unsigned long long total, reserved, free, used;
};

status nvmlDeviceGetMemoryInfo_v2(device d, struct memory_v2 *to) {
	BEGIN(d);
	to->reserved = 0;
	if (number(d, "memory_total", &to->total) != OK || number(d, "memory_used", &to->used) != OK) return NOT_SUPPORTED;
	number(d, "memory_reserved", &to->reserved);
	to->free = to->total - to->used - to->reserved;
	return OK;
}

status nvmlDeviceGetCurrentClocksEventReasons(device d, unsigned long long *to) {
	BEGIN(d);
	return number(d, "clock_reasons", to);
}

status nvmlDeviceGetComputeRunningProcesses_v3(device d, unsigned *count, struct process *to) {
	BEGIN(d);
	return processes(d, count, to);
}

status nvmlDeviceGetRemappedRows(device d, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
	BEGIN(d);
	*corrected = *uncorrected = 0;
	if (number32(d, "remap_pending", pending) != OK || number32(d, "remap_failed", failed) != OK) return NOT_SUPPORTED;
	return OK;
}

struct field_value {
	unsigned id, scope;
	long long timestamp, latency;
	unsigned type;
	status result;
	union {
		unsigned n;
		unsigned long long all;
	} value;
};

status nvmlDeviceGetFieldValues(device d, int count, struct field_value *values) {
	BEGIN(d);
	for (int i = 0; i < count; i++) {
		const char *key = values[i].id == 230 ? "recovery_action" : values[i].id == 82 ? "memory_temperature" : "none";
		values[i].type = 1; // NVML_VALUE_TYPE_UNSIGNED_INT
		values[i].value.all = 0;
		values[i].result = number32(d, key, &values[i].value.n);
	}
	return OK;
}

status nvmlDeviceGetMigMode(device d, unsigned *current, unsigned *pending) {
	BEGIN(d);
	status s = number32(d, "mig", current);
	*pending = *current;
	return s;
}

status nvmlDeviceGetMaxMigDeviceCount(device d, unsigned *to) {
	BEGIN(d);
	*to = PLACES - 1;
	return OK;
}

status nvmlDeviceGetMigDeviceHandleByIndex(device d, unsigned i, device *to) {
	int place, gpu = index_of(d, &place);
	char uuid[96];
	BEGIN(d);
	*to = &parts[gpu][i];
	return field(*to, "uuid", uuid, sizeof uuid) ? OK : NOT_FOUND;
}

status nvmlDeviceGetGpuInstanceId(device d, unsigned *to) {
	BEGIN(d);
	return number32(d, "gi", to);
}

status nvmlDeviceGetComputeInstanceId(device d, unsigned *to) {
	BEGIN(d);
	return number32(d, "ci", to);
}

struct event {
	device d;
	unsigned long long type, data;
	unsigned gi, ci;
};

// A set whose wait has failed says nothing any more, as that of a driver whose GPU is lost: another one has to be made. There are MAX_SETS, unless
// they are freed.
enum { MAX_SETS = 4 };
static char event_set;
static int failed_set, registered[GPUS], sets;

status nvmlEventSetCreate(char **to) {
	BEGIN(NULL);
	if (sets == MAX_SETS) return NO_MEMORY;
	sets++;
	*to = &event_set;
	failed_set = 0;
	memset(registered, 0, sizeof registered);
	return OK;
}

status nvmlDeviceGetSupportedEventTypes(device d, unsigned long long *to) {
	BEGIN(d);
	*to = 0x1 | 0x2 | 0x8;
	return OK;
}

status nvmlDeviceRegisterEvents(device d, unsigned long long types, char *set) {
	(void)types, (void)set;
	BEGIN(d);
	registered[d - gpus] = 1;
	return OK;
}

// Lines "event NUMBER GPU TYPE DATA GI CI": each number is an event that happens once.
static int next_event(struct event *to) {
	static int done[MAX_EVENTS];
	int number, gpu, found = 0;
	pthread_mutex_lock(&lock);
	load();
	for (char *at = text; !found && (at = strstr(at, "\nevent ")) != NULL; at++) {
		to->gi = to->ci = 0xFFFFFFFF;
		if (sscanf(at, "\nevent %d %d %llu %llu %u %u", &number, &gpu, &to->type, &to->data, &to->gi, &to->ci) < 4) continue;
		if (number < 0 || number >= MAX_EVENTS || done[number] || !registered[gpu]) continue;
		done[number] = found = 1;
		to->d = &gpus[gpu];
	}
	pthread_mutex_unlock(&lock);
	return found;
}

status nvmlEventSetFree(char *set) {
	(void)set;
	BEGIN(NULL);
	sets--;
	return OK;
}

status nvmlEventSetWait_v2(char *set, struct event *to, unsigned timeout_ms) {
	(void)set;
	status failed = begin(NULL, __func__);
	if (failed) failed_set = failed;
	if (failed_set) return failed_set;
	for (unsigned waited = 0;; waited += 20) {
		if (next_event(to)) return OK;
		if (waited >= timeout_ms) return TIMEOUT;
		struct timespec pause = {0, 20 * 1000 * 1000};
		nanosleep(&pause, NULL);
	}
}

#endif
