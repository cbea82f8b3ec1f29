"""Schemas over gRPC: danube_schema.SchemaRegistry. Methods that it lacks answer UNIMPLEMENTED."""

import time

from danube.proto import SchemaRegistry_pb2 as pb
from danube.proto import SchemaRegistry_pb2_grpc as services
from grpc import StatusCode

from sluicegate_danube.reference.answering import Context, answering
from sluicegate_danube.reference.broker_errors import RefusedError
from sluicegate_danube.reference.schemas import MODES, Schemas, Subject, Version


class Registry(services.SchemaRegistryServicer):  # type: ignore[misc]  # generated without types
    """danube_schema.SchemaRegistry, without the settings of topics."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas

    @answering
    def RegisterSchema(  # noqa: N802
        self, request: pb.RegisterSchemaRequest, _: Context
    ) -> pb.RegisterSchemaResponse:
        """Add a version, unless the subject has the same."""
        subject = self._schemas.find(request.subject)
        version = subject.find(request.schema_definition) if subject is not None else None
        is_new = version is None
        if subject is None or version is None:
            subject = self._schemas.for_new_version(
                request.subject, request.schema_type, request.schema_definition
            )
            version = Version(
                number=max(subject.versions, default=0) + 1,
                definition=request.schema_definition,
                description=request.description,
                created_by=request.created_by,
                created_at=time.time_ns() // 1_000_000_000,
                tags=tuple(request.tags),
            )
            subject.versions[version.number] = version
        return pb.RegisterSchemaResponse(
            schema_id=subject.schema_id,
            version=version.number,
            is_new_version=is_new,
            fingerprint=version.fingerprint,
        )

    @answering
    def GetSchema(self, request: pb.GetSchemaRequest, _: Context) -> pb.GetSchemaResponse:  # noqa: N802
        """A version of a schema, the latest if none is named."""
        subject = self._schemas.by_id(request.schema_id)
        number = request.version if request.HasField("version") else subject.latest.number
        return _response(subject, number)

    @answering
    def GetLatestSchema(  # noqa: N802
        self, request: pb.GetLatestSchemaRequest, _: Context
    ) -> pb.GetSchemaResponse:
        """The latest version of a subject."""
        subject = self._schemas.subject(request.subject)
        return _response(subject, subject.latest.number)

    @answering
    def ListVersions(  # noqa: N802
        self, request: pb.ListVersionsRequest, _: Context
    ) -> pb.ListVersionsResponse:
        """All versions of a subject."""
        subject = self._schemas.subject(request.subject)
        return pb.ListVersionsResponse(
            versions=[
                pb.SchemaVersionInfo(
                    version=version.number,
                    created_at=version.created_at,
                    created_by=version.created_by,
                    description=version.description,
                    fingerprint=version.fingerprint,
                    schema_id=subject.schema_id,
                )
                for version in subject.versions.values()
            ]
        )

    @answering
    def CheckCompatibility(  # noqa: N802
        self, request: pb.CheckCompatibilityRequest, _: Context
    ) -> pb.CheckCompatibilityResponse:
        """Whether a new version would be compatible."""
        errors = self._schemas.incompatibilities(
            request.subject,
            request.schema_type,
            request.new_schema_definition,
            request.compatibility_mode.lower(),
        )
        return pb.CheckCompatibilityResponse(is_compatible=not errors, errors=errors)

    @answering
    def SetCompatibilityMode(  # noqa: N802
        self, request: pb.SetCompatibilityModeRequest, _: Context
    ) -> pb.SetCompatibilityModeResponse:
        """How the next versions of a subject are checked."""
        mode = request.compatibility_mode.lower()
        if mode not in MODES:
            text = f"Invalid compatibility mode: {request.compatibility_mode}"
            raise RefusedError(StatusCode.INVALID_ARGUMENT, text)
        self._schemas.subject(request.subject).mode = mode
        return pb.SetCompatibilityModeResponse(success=True, message=f"{request.subject} is {mode}")

    @answering
    def DeleteSchemaVersion(  # noqa: N802
        self, request: pb.DeleteSchemaVersionRequest, _: Context
    ) -> pb.DeleteSchemaVersionResponse:
        """Delete one version, but never the last one."""
        subject = self._schemas.subject(request.subject)
        if request.version not in subject.versions or len(subject.versions) == 1:
            text = f"Failed to delete schema version: {request.version} of {request.subject}"
            raise RefusedError(StatusCode.INTERNAL, text)
        del subject.versions[request.version]
        text = f"version {request.version} of {request.subject} is deleted"
        return pb.DeleteSchemaVersionResponse(success=True, message=text)


def _response(subject: Subject, number: int) -> pb.GetSchemaResponse:
    version = subject.versions.get(number)
    if version is None:
        raise RefusedError(StatusCode.NOT_FOUND, f"{subject.name} has no version {number}")
    return pb.GetSchemaResponse(
        schema_id=subject.schema_id,
        version=version.number,
        subject=subject.name,
        schema_type=subject.schema_type,
        schema_definition=version.definition,
        description=version.description,
        created_at=version.created_at,
        created_by=version.created_by,
        tags=version.tags,
        fingerprint=version.fingerprint,
        compatibility_mode=subject.mode.upper(),
    )
