package boot

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Size is a flag's value in bytes. It is written as 65536, 64KiB, 64K or 1M;
// units are powers of 1024. MB and the like, which some take for powers of
// 1000, are refused.
type Size uint64

var units = [...]struct {
	long, short string
	bytes       uint64
}{
	{"KIB", "K", 1 << 10}, {"MIB", "M", 1 << 20}, {"GIB", "G", 1 << 30}, {"TIB", "T", 1 << 40}, {"PIB", "P", 1 << 50},
}

// Set reads s, in upper or lower case, as package flag has it.
func (z *Size) Set(s string) error {
	text := strings.ToUpper(strings.TrimSpace(s))
	digits := strings.TrimRight(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ ")
	unit := strings.TrimSpace(text[len(digits):])
	factor := uint64(1)
	if unit != "" && unit != "B" {
		factor = 0
		for _, u := range units {
			if unit == u.long || unit == u.short {
				factor = u.bytes
			}
		}
		if factor == 0 {
			return fmt.Errorf("%q is not a size: write it as 65536, 64KiB, 1MiB or 4M", s)
		}
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return fmt.Errorf("%q is not a size: write it as 65536, 64KiB, 1MiB or 4M", s)
	}
	high, low := bits.Mul64(n, factor)
	if high != 0 {
		return fmt.Errorf("%q is more than there is", s)
	}
	*z = Size(low)
	return nil
}

// String writes the size with the greatest unit that needs no fraction.
func (z *Size) String() string {
	n, suffix := uint64(*z), ""
	names := [...]string{"KiB", "MiB", "GiB", "TiB", "PiB"}
	for i := 0; n != 0 && n%1024 == 0 && i < len(names); i++ {
		n, suffix = n/1024, names[i]
	}
	return strconv.FormatUint(n, 10) + suffix
}

// Type names the kind of value in messages.
func (z *Size) Type() string { return "size" }
