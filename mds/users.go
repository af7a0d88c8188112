package mds

import (
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"manifold/mds/ns"
	"manifold/mds/op"
)

// maxGroups bounds the groups of one user.
const maxGroups = 4096

// newGroups returns what knows the supplementary groups of a uid.
func newGroups(log *zap.Logger) *lookups[uint32, []uint32] {
	return newLookups(systemGroups, "groups of a user not found on this machine: those that the client sends count", log)
}

// systemGroups asks this machine's user database.
func systemGroups(uid uint32) ([]uint32, error) {
	u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return nil, err
	}
	return groupsOf(u)
}

// groupsOf returns the groups of a user of this machine.
func groupsOf(u *user.User) ([]uint32, error) {
	ids, err := u.GroupIds()
	if err != nil {
		return nil, err
	}
	return parseGroups(ids)
}

func parseGroups(ids []string) ([]uint32, error) {
	if len(ids) > maxGroups {
		return nil, fmt.Errorf("%d groups, more than %d", len(ids), maxGroups)
	}
	gids := make([]uint32, 0, len(ids))
	for _, id := range ids {
		n, err := parseUint(id)
		if err != nil {
			return nil, fmt.Errorf("group %q: %w", id, err)
		}
		gids = append(gids, n)
	}
	return gids, nil
}

func parseUint(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), err
}

// newUsers returns op.Parts.Users: which user of this machine a Kerberos principal
// of realm is.
func newUsers(realm string, log *zap.Logger) func(principal string) (ns.Cred, bool) {
	l := newLookups(func(principal string) (ns.Cred, error) { return userOf(principal, realm, systemUser) },
		"a Kerberos principal is not found among the users of this machine: it is nobody, or waits if the look-up failed", log)
	return func(principal string) (ns.Cred, bool) { return known(l.of(principal)) }
}

// errNobody is why a principal is no user.
var errNobody = errors.New("neither a user of the realm nor a machine")

// known makes nobody of who is no user; false: it is not known who it is.
func known(who ns.Cred, err error) (ns.Cred, bool) {
	var unknown user.UnknownUserError
	if errors.Is(err, errNobody) || errors.As(err, &unknown) {
		return ns.Cred{UID: op.Nobody, GID: op.Nobody}, true
	}
	return who, err == nil
}

// userOf says who a principal is: USER@REALM is the user of that name, and the
// machine itself (nfs/HOST, host/HOST and root/HOST, or HOST$ as Active Directory
// writes it) is root, whom an export's rule may squash. Others are nobody.
func userOf(principal, realm string, lookup func(name string) (ns.Cred, error)) (ns.Cred, error) {
	name, at, ok := strings.Cut(principal, "@")
	if !ok || at != realm {
		return ns.Cred{}, errNobody
	}
	service, host, instance := strings.Cut(name, "/")
	switch {
	case !instance && strings.HasSuffix(name, "$"):
		return ns.Cred{}, nil
	case !instance:
		return lookup(name)
	case strings.Contains(host, "/"):
	case service == "nfs" || service == "host" || service == "root":
		return ns.Cred{}, nil
	}
	return ns.Cred{}, errNobody
}

// systemUser asks this machine's user database.
func systemUser(name string) (ns.Cred, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return ns.Cred{}, err
	}
	uid, err := parseUint(u.Uid)
	if err != nil {
		return ns.Cred{}, err
	}
	gid, err := parseUint(u.Gid)
	if err != nil {
		return ns.Cred{}, err
	}
	gids, err := groupsOf(u)
	return ns.Cred{UID: uid, GID: gid, GIDs: gids}, err
}
