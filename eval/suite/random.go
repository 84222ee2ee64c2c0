package suite

import "math"

// twister is Python's random generator, the Mersenne Twister MT19937 (Matsumoto and
// Nishimura, ACM TOMACS 8, 1998): a task has the same examples as in the harness.
type twister struct {
	state [624]uint32
	next  int
}

// newTwister returns the generator of random.Random(seed).
func newTwister(seed uint32) *twister {
	t := &twister{next: 624}
	t.state[0] = 19650218
	for i := 1; i < 624; i++ {
		t.state[i] = 1812433253*(t.state[i-1]^t.state[i-1]>>30) + uint32(i)
	}
	i := 1
	for range 624 { // the key is the seed alone
		t.state[i] = (t.state[i] ^ (t.state[i-1]^t.state[i-1]>>30)*1664525) + seed
		if i++; i >= 624 {
			t.state[0], i = t.state[623], 1
		}
	}
	for range 623 {
		t.state[i] = (t.state[i] ^ (t.state[i-1]^t.state[i-1]>>30)*1566083941) - uint32(i)
		if i++; i >= 624 {
			t.state[0], i = t.state[623], 1
		}
	}
	t.state[0] = 1 << 31
	return t
}

// bits returns n random bits, 1 to 32.
func (t *twister) bits(n int) uint32 {
	if t.next == 624 {
		for i := range t.state {
			y := t.state[i]&(1<<31) | t.state[(i+1)%624]&(1<<31-1)
			t.state[i] = t.state[(i+397)%624] ^ y>>1 ^ y&1*0x9908b0df
		}
		t.next = 0
	}
	y := t.state[t.next]
	t.next++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	y ^= y >> 18
	return y >> (32 - n)
}

// below returns a number from 0 to n-1.
func (t *twister) below(n int) int {
	size := 0
	for m := n; m > 0; m >>= 1 {
		size++
	}
	for {
		if r := int(t.bits(size)); r < n {
			return r
		}
	}
}

// sample returns k different indexes of n, as random.sample draws them; k ≤ n.
func (t *twister) sample(n, k int) []int {
	size := 21.0 // of a set that takes less memory than the list
	if k > 5 {
		size += math.Pow(4, math.Ceil(math.Log(float64(k*3))/math.Log(4)))
	}
	out := make([]int, k)
	if float64(n) <= size {
		pool := make([]int, n)
		for i := range pool {
			pool[i] = i
		}
		for i := range out {
			j := t.below(n - i)
			out[i], pool[j] = pool[j], pool[n-i-1]
		}
		return out
	}
	chosen := map[int]bool{}
	for i := range out {
		j := t.below(n)
		for chosen[j] {
			j = t.below(n)
		}
		chosen[j], out[i] = true, j
	}
	return out
}
