package nfs4

// ACE is an nfsace4 (RFC 8881 section 6.2.1).
type ACE struct {
	Type uint32
	Flag uint32
	Mask uint32
	Who  []byte `xdr:"max=MaxOwner"`
}

// ACL41 is an nfsacl41: the value of dacl and sacl.
type ACL41 struct {
	Flag uint32
	ACEs []ACE `xdr:"max=MaxACEs"`
}

// Types of an ACE, and the bits of aclsupport.
const (
	ACEAllowed = 0 // ACE4_ACCESS_ALLOWED_ACE_TYPE
	ACEDenied  = 1 // ACE4_ACCESS_DENIED_ACE_TYPE
	ACEAudit   = 2 // ACE4_SYSTEM_AUDIT_ACE_TYPE
	ACEAlarm   = 3 // ACE4_SYSTEM_ALARM_ACE_TYPE

	ACLSupportAllow = 1 // ACL4_SUPPORT_ALLOW_ACL
	ACLSupportDeny  = 2 // ACL4_SUPPORT_DENY_ACL
)

// Flags of an ACE.
const (
	ACEFileInherit      = 0x01 // ACE4_FILE_INHERIT_ACE
	ACEDirectoryInherit = 0x02 // ACE4_DIRECTORY_INHERIT_ACE
	ACENoPropagate      = 0x04 // ACE4_NO_PROPAGATE_INHERIT_ACE
	ACEInheritOnly      = 0x08 // ACE4_INHERIT_ONLY_ACE
	ACESuccessfulAccess = 0x10 // ACE4_SUCCESSFUL_ACCESS_ACE_FLAG
	ACEFailedAccess     = 0x20 // ACE4_FAILED_ACCESS_ACE_FLAG
	ACEIdentifierGroup  = 0x40 // ACE4_IDENTIFIER_GROUP
	ACEInherited        = 0x80 // ACE4_INHERITED_ACE
)

// Bits of an ACE's mask.
const (
	ACEReadData        = 0x00000001 // ACE4_READ_DATA, ACE4_LIST_DIRECTORY
	ACEWriteData       = 0x00000002 // ACE4_WRITE_DATA, ACE4_ADD_FILE
	ACEAppendData      = 0x00000004 // ACE4_APPEND_DATA, ACE4_ADD_SUBDIRECTORY
	ACEReadNamedAttrs  = 0x00000008 // ACE4_READ_NAMED_ATTRS
	ACEWriteNamedAttrs = 0x00000010 // ACE4_WRITE_NAMED_ATTRS
	ACEExecute         = 0x00000020 // ACE4_EXECUTE
	ACEDeleteChild     = 0x00000040 // ACE4_DELETE_CHILD
	ACEReadAttributes  = 0x00000080 // ACE4_READ_ATTRIBUTES
	ACEWriteAttributes = 0x00000100 // ACE4_WRITE_ATTRIBUTES
	ACEWriteRetention  = 0x00000200 // ACE4_WRITE_RETENTION
	ACEWriteRetHold    = 0x00000400 // ACE4_WRITE_RETENTION_HOLD
	ACEDelete          = 0x00010000 // ACE4_DELETE
	ACEReadACL         = 0x00020000 // ACE4_READ_ACL
	ACEWriteACL        = 0x00040000 // ACE4_WRITE_ACL
	ACEWriteOwner      = 0x00080000 // ACE4_WRITE_OWNER
	ACESynchronize     = 0x00100000 // ACE4_SYNCHRONIZE
)
