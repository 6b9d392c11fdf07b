package figures_test

import (
	"testing"

	"colonnade/discovery/engines/figures"
)

func TestCacheTokens(t *testing.T) {
	f := func(page string, want float64, known bool) {
		t.Helper()
		if got := figures.Parse([]byte(page)).CacheTokens; got != (figures.Value{N: want, Known: known}) {
			t.Errorf("%s: %+v, want %v, %v", page, got, want, known)
		}
	}
	const info = `vllm:cache_config_info{block_size="16",cache_dtype="auto",`
	f(info+`num_gpu_blocks="27881"} 1.0`, 27881*16, true)
	f(info+`engine="0",num_gpu_blocks="100"} 1.0`+"\n"+info+`engine="1",num_gpu_blocks="50"} 1.0`, 150*16, true)
	f(info+`num_gpu_blocks="None"} 1.0`, 0, false)
	f(info+`num_gpu_blocks="-5"} 1.0`, 0, false)
	f(`vllm:cache_config_info{block_size="1000000000",num_gpu_blocks="1000000000"} 1.0`, 0, false)
	f(`vllm:cache_config_info 1.0`, 0, false)
	f(`sglang:max_total_num_tokens{engine_type="unified",model_name="m"} 471258.0`, 471258, true)
}
