package work

import (
	"encoding/binary"
	"fmt"
)

// fill writes into p the bytes that the stream of seed holds from offset off
// on. Any part of a stream can be made by itself: byte i depends on seed and i
// alone, and no two streams agree for long.
func fill(p []byte, seed uint64, off int64) {
	var word [8]byte
	for i := 0; i < len(p); {
		pos := off + int64(i)
		if pos%8 == 0 && len(p)-i >= 8 {
			binary.LittleEndian.PutUint64(p[i:], mix(seed, uint64(pos)/8))
			i += 8
			continue
		}
		binary.LittleEndian.PutUint64(word[:], mix(seed, uint64(pos)/8))
		i += copy(p[i:], word[pos%8:])
	}
}

// mix is word n of the stream of seed (SplitMix64's finalizer over a Weyl
// sequence: fast, and good enough that wrong bytes never pass for right ones).
func mix(seed, n uint64) uint64 {
	z := seed*0xd1342543de82ef95 + n*0x9e3779b97f4a7c15 + 0x632be59bd9b4e019
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// difference describes the first run in which got, read at off, is not want.
// It returns "" where they agree. Zeros are named, because "zeros instead of
// data" and "another offset's data" are different faults.
func difference(got, want []byte, off int64) string {
	for i := range want {
		if got[i] == want[i] {
			continue
		}
		end := i
		for end < len(want) && got[end] != want[end] {
			end++
		}
		zeros := true
		for _, b := range got[i:end] {
			zeros = zeros && b == 0
		}
		what := fmt.Sprintf("% x", got[i:min(end, i+8)])
		if zeros {
			what = "zeros"
		}
		return fmt.Sprintf("offset %d: %d wrong bytes: %s, want % x", off+int64(i), end-i, what, want[i:min(end, i+8)])
	}
	return ""
}
