"""Images: give pictures labels."""

from heed.tasks.base import ATTRIBUTION, BESIDE, ERRORS, JSON, NBEST, SORT, Flag, TaskSpec

SPEC = TaskSpec(
    input="picture",
    unit="picture",
    summary="Give pictures labels.",
    example="photos/",
    interfaces=("image_encoder",),
    flags=(
        NBEST,
        JSON,
        SORT,
        ERRORS,
        Flag(
            "look",
            "map",
            str,
            "Map to draw over the picture: attention, rollout (across layers), gradient (Grad-CAM), saliency (per "
            "pixel) or field (receptive field of a unit); repeatable.",
            several=True,
        ),
        Flag(
            "look",
            "patch",
            str,
            "ROW,COLUMN from 0: attention of this patch, not of the class token; for field, the unit.",
        ),
        BESIDE,
        ATTRIBUTION,
        Flag("look", "label", str, "Label whose score is used; the most probable by default."),
        Flag("evaluate", "page", str, "With --errors: also write these examples to an HTML page.", metavar="FILE"),
    ),
    uses=("heed predict {run} PICTURE", "heed look {run} PICTURE", "heed evaluate {run}"),
    next_command="heed look {run} PICTURE",
    takes=(("pictures", "{file}"),),
    pretrained=("google/vit-base-patch16-224",),
    checkpoints="picture",
)
